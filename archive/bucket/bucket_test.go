package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sara/archive/bucket/s3test"
)

func TestFolder(t *testing.T) {
	suite(t, func(t *testing.T) string { return "file://" + filepath.ToSlash(t.TempDir()) })
}

func TestS3(t *testing.T) {
	server := s3test.Start(t)
	suite(t, func(t *testing.T) string { return server.NewBucket(t) })
}

// suite checks that a kind of bucket implements the interface.
func suite(t *testing.T, location func(*testing.T) string) {
	guarantee := func(name string, check func(*testing.T, string)) {
		t.Run(name, func(t *testing.T) { check(t, location(t)) })
	}
	guarantee("read returns what was written", readAsWritten)
	guarantee("put requires the revision", conditionalPut)
	guarantee("put of what is there already succeeds", repeatedPut)
	guarantee("delete requires the revision", conditionalDelete)
	guarantee("list is complete and ordered", listing)
	guarantee("concurrent writers lose no change", increments)
	guarantee("one of concurrent creators succeeds", creators)
	guarantee("a name cannot leave the bucket", names)
	guarantee("a canceled context ends every call", ended)
	guarantee("check passes repeatedly", func(t *testing.T, location string) {
		b := open(t, location)
		for range 2 {
			if err := Check(t.Context(), b, "probe"); err != nil {
				t.Error(err)
			}
		}
		if _, err := b.Put(t.Context(), "probe", nil, ""); err != nil {
			t.Errorf("nothing is left of the probe: %v", err)
		}
		if err := Check(t.Context(), b, "probe"); err != nil {
			t.Errorf("with a probe left behind: %v", err)
		}
	})
}

func open(t *testing.T, location string) Bucket {
	t.Helper()
	b, err := Open(location)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, b Bucket, name, data, revision string) string {
	t.Helper()
	written, err := b.Put(t.Context(), name, []byte(data), revision)
	if err != nil || written == "" {
		t.Fatalf("put %s: revision %q, %v", name, written, err)
	}
	return written
}

func readAsWritten(t *testing.T, location string) {
	b := open(t, location)
	if _, _, err := b.Get(t.Context(), "history/none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an object that is not there: %v", err)
	}
	for name, data := range map[string][]byte{
		"empty":                    {},
		"history/a=1/b=2/object.x": bytes.Repeat([]byte("\x00\xff some data \r\n"), 100_000),
		"with space & ü%2F+?#=":    []byte("x"),
	} {
		written, err := b.Put(t.Context(), name, data, "")
		if err != nil {
			t.Fatal(err)
		}
		again := open(t, location)
		got, revision, err := again.Get(t.Context(), name)
		if err != nil || !bytes.Equal(got, data) || revision != written {
			t.Errorf("get %q: %d bytes, revision %q, %v; want %d bytes, revision %q", name, len(got), revision, err, len(data), written)
		}
	}
}

func conditionalPut(t *testing.T, location string) {
	b := open(t, location)
	first := put(t, b, "o", "one", "")
	second := put(t, b, "o", "two", first)
	if first == second {
		t.Fatalf("both have the revision %q", first)
	}
	for _, revision := range []string{"", first, "no-revision", "*"} {
		if _, err := b.Put(t.Context(), "o", []byte("three"), revision); !errors.Is(err, ErrChanged) {
			t.Errorf("put with revision %q: %v", revision, err)
		}
	}
	if _, err := b.Put(t.Context(), "none", []byte("x"), first); !errors.Is(err, ErrChanged) {
		t.Errorf("put with the revision of another object: %v", err)
	}
	if data, revision, err := b.Get(t.Context(), "o"); string(data) != "two" || revision != second || err != nil {
		t.Errorf("it is %q, %q, %v", data, revision, err)
	}
	if _, _, err := b.Get(t.Context(), "none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a refused write made an object: %v", err)
	}
}

// A write may have been done by an attempt whose answer was lost.
func repeatedPut(t *testing.T, location string) {
	b := open(t, location)
	created := put(t, b, "o", "one", "")
	replaced := put(t, b, "o", "two", created)
	for _, revision := range []string{"", created, "no-revision", replaced} {
		if written, err := b.Put(t.Context(), "o", []byte("two"), revision); err != nil || revision != replaced && written != replaced {
			t.Errorf("put with revision %q: %q, %v, want %q", revision, written, err, replaced)
		}
	}
	if _, err := b.Put(t.Context(), "o", []byte("one"), created); !errors.Is(err, ErrChanged) {
		t.Errorf("put of what was there before: %v", err)
	}
}

func conditionalDelete(t *testing.T, location string) {
	b := open(t, location)
	first := put(t, b, "a/o", "one", "")
	second := put(t, b, "a/o", "two!", first)
	for _, revision := range []string{"", first, "no-revision"} {
		if err := b.Delete(t.Context(), "a/o", revision); !errors.Is(err, ErrChanged) {
			t.Errorf("delete with revision %q: %v", revision, err)
		}
	}
	if err := b.Delete(t.Context(), "a/o", second); err != nil {
		t.Error(err)
	}
	if _, _, err := b.Get(t.Context(), "a/o"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	for _, revision := range []string{"", second} {
		if err := b.Delete(t.Context(), "a/o", revision); !errors.Is(err, ErrChanged) {
			t.Errorf("delete what is gone with revision %q: %v", revision, err)
		}
	}
	put(t, b, "a/o", "three", "")
}

func listing(t *testing.T, location string) {
	b := open(t, location)
	if entries, err := b.List(t.Context(), "history/"); len(entries) != 0 || err != nil {
		t.Errorf("an empty bucket has %v, %v", entries, err)
	}
	names := []string{"history/p=1/m=1/h", "history/p=1/m=2/h", "history/p=10/m=1/h", "history/p=1-x/h", "other/h", "top"}
	revisions := make(map[string]string)
	for _, name := range names {
		revisions[name] = put(t, b, name, name, "")
	}
	for prefix, want := range map[string][]string{
		"":               names,
		"history/p=1/":   names[:2],
		"history/p=1":    names[:4],
		"history/p=1/m=": names[:2],
		"history/p=2/":   nil,
		"none/":          nil,
		"to":             {"top"},
		"top/":           nil,
		"top":            {"top"},
	} {
		want = slices.Sorted(slices.Values(want))
		entries, err := b.List(t.Context(), prefix)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name)
			if e.Revision != revisions[e.Name] || e.Size != int64(len(e.Name)) {
				t.Errorf("%+v, want revision %s and size %d", e, revisions[e.Name], len(e.Name))
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, %v, want %q", prefix, got, err, want)
		}
	}
}

// increment adds one letter to an object, and retries if another writer was faster.
func increment(ctx context.Context, b Bucket, name, letter string) error {
	for {
		data, revision, err := b.Get(ctx, name)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		_, err = b.Put(ctx, name, append(data, letter...), revision)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

func increments(t *testing.T, location string) {
	const writers, each = 8, 10
	var group sync.WaitGroup
	for w := range writers {
		b := open(t, location)
		group.Go(func() {
			for range each {
				if err := increment(t.Context(), b, "a/counter", string(rune('a'+w))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	data, _, err := open(t, location).Get(t.Context(), "a/counter")
	if err != nil {
		t.Fatal(err)
	}
	for w := range writers {
		if n := strings.Count(string(data), string(rune('a'+w))); n != each {
			t.Errorf("writer %d: %d of %d are there", w, n, each)
		}
	}
}

func creators(t *testing.T, location string) {
	const creators, rounds = 8, 10
	b := open(t, location)
	for round := range rounds {
		name := fmt.Sprintf("a/%d", round)
		won := make(chan string, creators)
		var group sync.WaitGroup
		for c := range creators {
			group.Go(func() {
				text := fmt.Sprint("creator ", c)
				_, err := b.Put(t.Context(), name, []byte(text), "")
				if err == nil {
					won <- text
				} else if !errors.Is(err, ErrChanged) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		close(won)
		winner := <-won
		if data, _, err := b.Get(t.Context(), name); string(data) != winner || err != nil || len(won) > 0 {
			t.Errorf("%q has won, and %d more; the object is %q, %v", winner, len(won), data, err)
		}
	}
}

func names(t *testing.T, location string) {
	b := open(t, location)
	for _, name := range []string{"", ".", "/", "/etc/x", "..", "../x", "a/../../x", "a/./b", "a//b", "a/", ".x", "a/.x", `a\..\x`,
		"a\x00b", strings.Repeat("x", 600)} {
		_, _, getErr := b.Get(t.Context(), name)
		_, putErr := b.Put(t.Context(), name, []byte("x"), "")
		deleteErr := b.Delete(t.Context(), name, "x")
		for _, err := range []error{getErr, putErr, deleteErr} {
			if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrChanged) {
				t.Errorf("%.20q: %v", name, err)
			}
		}
	}
	for _, prefix := range []string{"../", "/", "a/../b", ".x"} {
		if _, err := b.List(t.Context(), prefix); err == nil {
			t.Errorf("prefix %q is listed", prefix)
		}
	}
}

func ended(t *testing.T, location string) {
	b := open(t, location)
	revision := put(t, b, "o", "x", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, getErr := b.Get(ctx, "o")
	_, putErr := b.Put(ctx, "o", []byte("y"), revision)
	_, listErr := b.List(ctx, "")
	for _, err := range []error{getErr, putErr, listErr, b.Delete(ctx, "o", revision)} {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestOpenErrorsNameTheProblemAndNoSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "hush-hush"
	for location, want := range map[string]string{
		"":                                  "the path of the folder is empty",
		"file://":                           "the path of the folder is empty",
		file:                                "not a directory",
		"file://host/folder":                "three slashes",
		"file:///folder?x=" + secret:        "only a path",
		"gs://bucket":                       `"gs" is neither file nor s3`,
		"s3://":                             "has no bucket",
		"s3:///prefix":                      "has no bucket",
		"s3://bucket?Region=x":              `"Region" is neither endpoint nor region`,
		"s3://localhost:9000/bucket":        "localhost:9000 is not a bucket",
		"s3://bucket/p#2026":                "must not have a #",
		"s3://key:" + secret + "@bucket":    "credentials do not belong in the URL",
		"s3://bucket?endpoint=host:9000":    "must be https://host",
		"s3://bucket?endpoint=http://h/p":   "must be https://host",
		"s3://bucket?endpoint=ftp://host":   "must be https://host",
		"s3://bucket/../x":                  "is not the name of an object",
		"s3://b%zz" + secret:                "malformed",
		"s3://bucket?endpoint=%zz" + secret: "malformed",
		"s3://bucket?endpoint=http://u:" + secret + "@host": "must be https://host",
	} {
		_, err := Open(location)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, want %q", location, err, want)
		}
	}
}

// blind is a bucket that ignores conditions, as some stores with an S3 API do.
type blind struct{ Bucket }

func (b blind) Put(ctx context.Context, name string, data []byte, _ string) (string, error) {
	_, revision, err := b.Get(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	return b.Bucket.Put(ctx, name, data, revision)
}

func TestCheckDetectsAStoreWithoutConditions(t *testing.T) {
	if err := Check(t.Context(), blind{open(t, t.TempDir())}, "probe"); err == nil || !strings.Contains(err.Error(), "overwrites") {
		t.Error(err)
	}
}

// silent is a bucket that does not answer Put number from and those after it.
type silent struct {
	Bucket
	puts *int
	from int
}

func (s silent) Put(ctx context.Context, name string, data []byte, revision string) (string, error) {
	if *s.puts++; *s.puts >= s.from {
		return "", context.DeadlineExceeded
	}
	return s.Bucket.Put(ctx, name, data, revision)
}

// A store that does not answer in time has not ignored a condition, which would keep a server from starting. No probe is left in it.
func TestCheckTellsASilentStoreFromOneWithoutConditions(t *testing.T) {
	for from := 1; from <= 4; from++ {
		b := open(t, t.TempDir())
		err := Check(t.Context(), silent{b, new(int), from}, "probe")
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "overwrites") {
			t.Errorf("silent from Put %d: %v", from, err)
		}
		if left, err := b.List(t.Context(), ""); err != nil || len(left) > 0 {
			t.Errorf("silent from Put %d: it leaves %v (%v)", from, left, err)
		}
	}
}
