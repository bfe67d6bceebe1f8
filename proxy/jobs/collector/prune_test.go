package collector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/upstream"
	"sara/translate"
)

func TestPruneDeletesDaysPastRetentionAndGrace(t *testing.T) {
	w := newUpstream(t, nil)
	folder := t.TempDir()
	c, ctx := w.collector(folder), context.Background()
	since := w.anchor() - 150
	w.collect(c, Span{Since: &since}, "shop", "old")
	first := since
	for _, id := range []string{"shop", "old"} {
		p := w.property(id)
		p.RetentionMonths, p.Archived = 3, id == "old"
		w.change(p)
		w.calls()
		_, err := c.Collect(ctx, []Property{p}, Span{})
		check(t, err)
		if p.Archived {
			equal(t, "calls for an archived property", len(w.calls()), 0)
		}
		first = translate.NewWindow(w.anchor(), 3).Earliest - GraceDays
		w.wantArchived(folder, id, first, w.anchor())
		if s := w.state(id); *s.First != first || s.CollectedAt == nil {
			t.Errorf("stored %+v", s)
		}
	}
	if first <= since {
		t.Error("there was nothing to prune")
	}
}

// A property that Search Console refuses, perhaps for ever, is not kept longer than others.
func TestPruneDespiteAFailedCollection(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	c, since := w.collector(folder), w.anchor()-150
	w.collect(c, Span{Since: &since}, "shop")
	w.failing(func(upstream.Target, translate.Query) error { return fail(upstream.Revoked, 0) })
	p := w.property("shop")
	p.RetentionMonths = 3
	w.change(p)
	tomorrow := w.anchor() + 1
	results, err := c.Collect(t.Context(), []Property{p}, Span{Until: &tomorrow})
	check(t, err)
	if !errors.As(results[0].Err, new(*upstream.Error)) {
		t.Errorf("the collection ended with %v", results[0].Err)
	}
	w.wantArchived(folder, "shop", translate.NewWindow(w.anchor(), 3).Earliest-GraceDays, w.anchor())
}

// A clock that is years ahead deletes nothing that the newest archived day of all properties does not confirm as past.
func TestPruneNeedsMoreThanTheClock(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	since, anchor := w.anchor()-150, w.anchor()
	w.collect(w.collector(folder), Span{Since: &since}, "shop")
	w.failing(func(upstream.Target, translate.Query) error { return fail(upstream.Rejected, 0) }) // no certificate is valid then
	right, ahead := w.now(), w.now().AddDate(9, 0, 0)
	p := w.property("shop")
	p.RetentionMonths = 3
	w.change(p)
	var got notices
	prune := func(now time.Time, first translate.Date) {
		t.Helper()
		w.now = func() time.Time { return now }
		c := w.collector(folder, func(c *Config) { c.Progress = &got })
		_, err := c.Collect(t.Context(), w.properties("shop"), Span{})
		check(t, err)
		inventory, err := openHistory(t, folder).Days(t.Context(), "shop")
		check(t, err)
		from, to := inventory.Bounds()
		equal(t, "archived days", fmt.Sprint(*from, *to), fmt.Sprint(first, anchor))
	}
	first := translate.NewWindow(anchor+translate.LongestLag, 3).Earliest - GraceDays
	prune(ahead, first)
	past := FirstKept(w.anchor(), 3)
	equal(t, "notices", fmt.Sprint(got.all), fmt.Sprint([]fmt.Stringer{Unconfirmed{past, anchor}, Pruned{first}}))
	prune(right.AddDate(0, 1, 0), first)
	newer := anchor + 31 // of another property
	check(t, w.SaveArchiveState(t.Context(), sqlstore.ArchiveState{PropertyID: "blog", Last: &newer}))
	prune(right.AddDate(0, 1, 0), FirstKept(w.anchor(), 3))
}

// An unreadable month does not keep the others beyond what the plan keeps.
func TestPruneDespiteADamagedMonth(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	since := w.anchor() - 200
	w.collect(w.collector(folder), Span{Since: &since}, "shop")
	names := slices.Sorted(maps.Keys(objects(t, folder)))
	check(t, os.WriteFile(folder+names[len(names)-1], []byte("PAR1 and no more"), 0o600))
	p := w.property("shop")
	p.RetentionMonths = 1
	w.change(p)
	w.passDay()
	results, err := w.collector(folder).Collect(t.Context(), w.properties("shop"), Span{})
	check(t, err)
	if _, ok := errors.AsType[*archive.DamageError](results[0].Err); !ok {
		t.Errorf("the damage is not reported: %v", results[0].Err)
	}
	inventory, _ := openHistory(t, folder).Days(t.Context(), "shop") // with the damage
	if first, _ := inventory.Bounds(); first == nil || *first < FirstKept(w.anchor(), 1) {
		t.Errorf("the first day is %v", first)
	}
}
