package policy

import (
	"maps"
	"strconv"
	"testing"
	"time"
)

func TestKeyUsesAreTakenOnceAnHour(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admit := func() {
		t.Helper()
		if _, err := w.request(t.Context(), "Bearer "+validKeyText, 0); err != nil {
			t.Fatal(err)
		}
	}
	used := func(want map[string]time.Time) {
		t.Helper()
		if got := w.TakeKeyUses(); !maps.Equal(got, want) {
			t.Errorf("taken %v, want %v", got, want)
		}
	}
	used(map[string]time.Time{})
	admit()
	admit()
	hour := w.clock.now().Truncate(time.Hour)
	used(map[string]time.Time{"k1": hour})
	admit()
	used(map[string]time.Time{})
	w.clock.advance(time.Hour)
	grant, err := w.request(t.Context(), "Bearer "+validKeyText, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	if _, err := w.Readmit(grant, w.clock.now(), Request{}); err != nil {
		t.Fatal(err)
	}
	used(map[string]time.Time{"k1": hour.Add(2 * time.Hour)})
}

func TestKeyUsesAreBounded(t *testing.T) {
	t.Parallel()
	var u keyUses
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for round := range 3 {
		for i := range maxKeyUses + 10 {
			u.note(strconv.Itoa(round)+"-"+strconv.Itoa(i), now)
		}
		if n := len(u.take()); n != maxKeyUses || len(u.last) > maxKeyUses {
			t.Errorf("%d uses are taken, %d are remembered", n, len(u.last))
		}
	}
}
