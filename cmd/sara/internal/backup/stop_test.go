package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"sara/archive/bucket"
)

// broken is a bucket that answers only the listing, and counts what it is asked for.
type broken struct {
	bucket.Bucket
	objects int
	asked   atomic.Int64
}

var errBroken = errors.New("broken")

func (b *broken) List(context.Context, string) ([]bucket.Entry, error) {
	list := make([]bucket.Entry, b.objects)
	for i := range list {
		list[i].Name = fmt.Sprintf("shop/%d", i)
	}
	return list, nil
}

func (b *broken) Get(context.Context, string) ([]byte, string, error) {
	b.asked.Add(1)
	return nil, "", errBroken
}

func (b *broken) Put(context.Context, string, []byte, string) (string, error) {
	b.asked.Add(1)
	return "", errBroken
}

// A store that fails, or a disk that is full, ends the copying: the rest of a large archive would fail one by one, each after its retries.
func TestTheFirstFailureEndsTheCopying(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := root.MkdirAll(objectFolder+"/shop", 0o700); err != nil {
		t.Fatal(err)
	}
	const objects = 20 * parallel
	names := make([]string, objects)
	for i := range names {
		names[i] = fmt.Sprintf("shop/%d", i)
		if err := root.WriteFile(objectFolder+"/"+names[i], nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, do := range map[string]func(bucket.Bucket) error{
		"backup": func(b bucket.Bucket) error { return (&writer{root: root}).objects(t.Context(), b, &Manifest{}) },
		"restore": func(b bucket.Bucket) error {
			return (&Backup{root: root, objects: names}).RestoreObjects(t.Context(), b)
		},
	} {
		b := &broken{objects: objects}
		if err := do(b); !errors.Is(err, errBroken) || b.asked.Load() > 2*parallel {
			t.Errorf("%s: after %d of %d objects: %v", name, b.asked.Load(), objects, err)
		}
	}
}
