package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sara/archive/bucket"
)

// forgetful loses the answer to each first attempt at a Put, and makes another attempt, as the client of S3 does.
type forgetful struct{ bucket.Bucket }

func (f forgetful) Put(ctx context.Context, name string, data []byte, revision string) (string, error) {
	if _, err := f.Bucket.Put(ctx, name, data, revision); err != nil {
		return "", err
	}
	return f.Bucket.Put(ctx, name, data, revision)
}

// An object whose write was not answered is there; one that another process has changed is an error.
func TestRestoredObjectsMayBeThereAlready(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, objectFolder, "shop", "2025-01")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("saved"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	b := &Backup{root: root, objects: []string{"shop/2025-01"}}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	to, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // into an empty archive, and over itself
		err := b.RestoreObjects(t.Context(), forgetful{to})
		if data, _, getErr := to.Get(t.Context(), "shop/2025-01"); err != nil || getErr != nil || string(data) != "saved" {
			t.Errorf("%v; there is %q, %v", err, data, getErr)
		}
	}
	if _, err := to.Put(t.Context(), "shop/2025-01", []byte("other"), ""); !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("another object of the same name: %v", err)
	}
}
