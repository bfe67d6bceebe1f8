package collector

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
	"sara/translate"
)

// Without Current, a run would not notice that a property was removed meanwhile.
func TestCurrentIsRequired(t *testing.T) {
	w := newUpstream(t, nil)
	if _, err := New(Config{History: newMemory(), Gateway: w, Store: w}); err == nil {
		t.Error("a collector takes properties as they were when its run began")
	}
}

// A run may take hours: the plan at its start must not decide what is deleted at its end.
func TestPruneGoesByThePlanOfTheMoment(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	since := w.anchor() - 150
	w.collect(w.collector(folder), Span{Since: &since}, "shop")
	down := errors.New("the store is down")
	wantFirst := func(months int, down error, want translate.Date) {
		t.Helper()
		c := w.collector(folder, func(c *Config) {
			asked := 0
			c.Current = func(_ context.Context, id string) (Property, bool, error) {
				p := w.property(id)
				p.RetentionMonths = 3
				if asked++; asked > 1 { // the first time is before the attempt
					p.RetentionMonths = months
					return p, true, down
				}
				return p, true, nil
			}
		})
		results, err := c.Collect(context.Background(), w.properties("shop"), Span{})
		check(t, err)
		if !errors.Is(results[0].Err, down) {
			t.Errorf("%d months: %v", months, results[0].Err)
		}
		w.wantArchived(folder, "shop", want, w.anchor())
	}
	wantFirst(36, nil, since)
	wantFirst(0, nil, since)
	wantFirst(3, down, since)
	wantFirst(3, nil, translate.NewWindow(w.anchor(), 3).Earliest-GraceDays)
}

func TestPropertiesAreCollectedAsTheyAreWhenTheirTurnComes(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	span := w.weeks(2)
	begun := false
	w.failing(func(target upstream.Target, _ translate.Query) error {
		if begun = true; target.PropertyID != "shop" && target.ConnectionID != "other" {
			return fail(upstream.Revoked, 0)
		}
		return nil
	})
	c := w.collector(folder, func(c *Config) {
		c.Parallel = 1
		c.Current = func(_ context.Context, id string) (Property, bool, error) {
			p := w.property(id)
			if begun { // by the first property
				p.ConnectionID = "other"
			}
			return p, id != "removed", nil
		}
	})
	results, err := c.Collect(context.Background(), w.properties("shop", "removed", "moved"), span)
	check(t, err)
	if results[0].Err != nil || !errors.Is(results[1].Err, ErrRemoved) || results[2].Err != nil {
		t.Errorf("%v, %v, %v", results[0].Err, results[1].Err, results[2].Err)
	}
	for _, id := range []string{"shop", "moved"} {
		w.wantArchived(folder, id, *span.Since, w.anchor())
	}
	if inventory, err := openHistory(t, folder).Days(context.Background(), "removed"); len(inventory) > 0 || err != nil {
		t.Errorf("archived of a removed property: %v, %v", inventory, err)
	}
	if _, saved := w.states["removed"]; saved {
		t.Error("the state of a removed property is saved")
	}
}

// The customer connects the account again while a run goes on: the properties whose turn comes later are collected.
func TestConnectionThatIsRepairedDuringARunIsUsed(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	span := w.weeks(2)
	repaired := false
	w.failing(func(target upstream.Target, _ translate.Query) error {
		if target.Revision == 0 {
			repaired = true
			return fail(upstream.Revoked, 0)
		}
		return nil
	})
	c := w.collector(folder, func(c *Config) {
		c.Parallel = 1
		c.Current = func(_ context.Context, id string) (Property, bool, error) {
			p := w.property(id)
			if repaired {
				p.Revision++
			}
			return p, true, nil
		}
	})
	results, err := c.Collect(context.Background(), w.properties("shop", "blog"), span)
	check(t, err)
	if !errors.Is(results[0].Err, errDown) || results[1].Err != nil {
		t.Errorf("%v, %v", results[0].Err, results[1].Err)
	}
	w.wantArchived(folder, "blog", *span.Since, w.anchor())
}

// removingStore is a Store without the property that it is asked to save.
type removingStore struct{ *fakeUpstream }

func (removingStore) SaveArchiveState(_ context.Context, s sqlstore.ArchiveState) error {
	return fmt.Errorf("save: %w", &sqlstore.NotFoundError{Kind: "property", Reference: s.PropertyID})
}

// A property that is removed while it is collected has not failed.
func TestPropertyThatIsRemovedDuringItsAttemptIsReportedAsRemoved(t *testing.T) {
	for name, failure := range map[string]error{"collected": nil, "refused": fail(upstream.Forbidden, 0)} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t, nil)
			w.failing(func(upstream.Target, translate.Query) error { return failure })
			c := w.collector(t.TempDir(), func(c *Config) { c.Store = removingStore{w} })
			results, err := c.Collect(t.Context(), w.properties("shop"), w.weeks(1))
			check(t, err)
			if !errors.Is(results[0].Err, ErrRemoved) {
				t.Errorf("got %v", results[0].Err)
			}
		})
	}
}
