package policy

import (
	"context"
	"testing"
)

// warmGate returns a function that admits a request with a cached key.
func warmGate(tb testing.TB) (check func()) {
	key, hash := NewKey("sara")
	w := newFixture(tb)
	w.directory.keys[hash] = validKey()
	request := Request{Authorization: "Bearer " + key, Address: "192.0.2.1", RequiredScopes: PerformanceRead}
	return func() {
		if _, err := w.Admit(context.Background(), request); err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	check := warmGate(b)
	b.ReportAllocs()
	for b.Loop() {
		check()
	}
}

func TestAdmitOfCachedKeyAllocatesOnlyTheGrant(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	check := warmGate(t)
	check()
	if got := testing.AllocsPerRun(1000, check); got > 1 {
		t.Errorf("%v allocations", got)
	}
}

func TestCachedPropertyAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	w, key := newFixture(t), validKey()
	grant := &Grant{Key: &key}
	find := func() {
		if _, err := w.Property(context.Background(), grant, "shop"); err != nil {
			t.Fatal(err)
		}
	}
	find()
	if got := testing.AllocsPerRun(1000, find); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
