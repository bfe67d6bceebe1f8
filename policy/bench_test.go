package policy

import (
	"context"
	"fmt"
	"testing"
	"time"
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

// BenchmarkMisses counts unknown keys from ever new networks, twice as many as are kept.
func BenchmarkMisses(b *testing.B) {
	networks := make([]string, 2*maxRecentNames)
	for n := range networks {
		networks[n] = fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
	}
	l := newMinuteLimiter(time.Now, AddressMinute, maxUnknownKeys)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		_ = l.count(networks[n%len(networks)], 1)
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
