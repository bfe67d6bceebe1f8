package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/saratest"
)

func TestRequestsAreDistinct(t *testing.T) {
	lastDay := time.Date(2026, time.November, 17, 0, 0, 0, 0, time.UTC)
	const step = 11 // coprime with every base, so that every digit takes all its values
	seen := make(map[string]bool)
	for number := 0; number < maxRequests; number += step {
		path, _ := path(number, lastDay)
		seen[path] = true
	}
	if want := (maxRequests + step - 1) / step; len(seen) != want {
		t.Errorf("%d of %d requests are distinct", len(seen), want)
	}
}

func TestBounded(t *testing.T) {
	const bound = 100 << 20
	heaps := func(cache float64, heaps ...float64) (samples []sample) {
		for i, heap := range heaps {
			samples = append(samples, sample{requests: i, cache: cache * bound, heap: heap * (1 << 20)})
		}
		return samples
	}
	for _, c := range []struct {
		name, want string
		samples    []sample
	}{
		{"a steady heap passes", "", heaps(1, 200, 210, 190, 200)},
		{"growth while it fills passes", "", append(heaps(.5, 10, 50), heaps(.95, 200, 200, 210)...)},
		{"a cache over its bound", "its limit is", heaps(1.01, 200, 200, 200)},
		{"a heap that grows with a full cache", "the heap grew", heaps(1, 200, 230, 270)},
		{"a cache that is not full", "never filled", heaps(.5, 200, 200, 200)},
		{"a cache that is full at the end", "only at the end", append(heaps(.5, 200), heaps(1, 200)...)},
	} {
		err := bounded(c.samples, bound)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A small soak: a cache of 2 MiB is full after a fraction of it. Its largest entries have about 150 kB, so a smaller cache may never
// get as full as bounded requires.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	var printed strings.Builder
	o := options{binary: saratest.Binary(t), requests: 1200, batch: 150, connections: 8, cacheBytes: "2MiB"}
	result, err := run(t.Context(), o, &printed)
	if err != nil {
		t.Fatalf("%v\n%s", err, &printed)
	}
	if answered := result.cache["miss"] + result.cache["hit"]; answered != int64(o.requests) {
		t.Errorf("X-Cache of %d requests: %v", o.requests, result.cache)
	}
	if result.cache["miss"] < int64(o.requests)/2 {
		t.Errorf("most of the distinct requests are hits: %v", result.cache)
	}
}

// A replica that answers everything but fails when it stops, as the race detector's does, fails the run.
func TestReplicaThatFailsAtItsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	const script = `#!/bin/sh
[ "$1" = serve ] || exec "$SARA" "$@"
"$SARA" "$@" &
trap 'kill $!; wait $!; exit 66' TERM
wait`
	t.Setenv("SARA", saratest.Binary(t))
	o := options{binary: filepath.Join(t.TempDir(), "sara"), requests: 8, batch: 8, connections: 1, cacheBytes: "2MiB"}
	if err := os.WriteFile(o.binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "exit status 66") {
		t.Errorf("the run ends with %v", err)
	}
}

// A big soak, with a few answers computed from 10 MB each.
func TestBigSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	o, err := parse([]string{"-big", "-requests", "24", "-batch", "12"})
	if err != nil || o.connections != 16 || o.cacheBytes != "256MiB" || o.requests != 24 {
		t.Fatalf("%+v (%v)", o, err)
	}
	o.binary = saratest.Binary(t)
	var printed strings.Builder
	result, err := run(t.Context(), o, &printed)
	t.Log("\n" + printed.String())
	if err != nil {
		t.Fatal(err)
	}
	if result.cache["miss"] == 0 {
		t.Errorf("no answer was read from the upstream: %v", result.cache)
	}
}
