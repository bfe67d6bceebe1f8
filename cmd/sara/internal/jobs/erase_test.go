package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"sara/archive/sqlstore"
)

// removals has removed properties with a number of objects each.
type removals struct {
	removed []sqlstore.RemovedProperty
	objects map[string]int
	failing string
}

func (r *removals) RemovedProperties(context.Context) ([]sqlstore.RemovedProperty, error) {
	return slices.Clone(r.removed), nil
}

func (r *removals) ForgetRemoved(_ context.Context, id string) error {
	r.removed = slices.DeleteFunc(r.removed, func(p sqlstore.RemovedProperty) bool { return p.ID == id })
	return nil
}

func (r *removals) Erase(_ context.Context, id string) (int, error) {
	if id == r.failing {
		return 0, errors.New("the store is away")
	}
	n := r.objects[id]
	delete(r.objects, id)
	return n, nil
}

func TestEraseResumesAndForgets(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	r := &removals{removed: []sqlstore.RemovedProperty{{ID: "a", RemovedAt: began}, {ID: "b", RemovedAt: began}},
		objects: map[string]int{"a": 3, "b": 2}, failing: "a"}
	erase := func(after time.Duration) (objects int, err error) {
		err = Erase(t.Context(), r, r, began.Add(after), func(e Erased) { objects += e.Objects })
		return objects, err
	}
	if n, err := erase(0); n != 2 || err == nil {
		t.Errorf("while a fails, %d objects are deleted: %v", n, err)
	}
	r.failing = ""
	r.objects["b"] = 1 // written by a collector that had begun before
	if n, err := erase(time.Hour); n != 4 || err != nil || len(r.removed) != 2 {
		t.Errorf("later %d objects are deleted: %v; remembered: %v", n, err, r.removed)
	}
	r.objects["b"] = 1
	if n, err := erase(forgetAfter); n != 1 || err != nil || len(r.removed) != 1 || r.removed[0].ID != "b" {
		t.Errorf("after a day %d objects are deleted: %v; remembered: %v", n, err, r.removed)
	}
	if n, err := erase(forgetAfter); n != 0 || err != nil || len(r.removed) != 0 {
		t.Errorf("at last %d objects are deleted: %v; remembered: %v", n, err, r.removed)
	}
}

// A replica that waits for the one that collects looks for properties every twenty seconds, and twice when it has waited.
func TestSpacedRunsOncePerPause(t *testing.T) {
	t.Parallel()
	now, runs := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), 0
	do := Spaced(10*time.Minute, func() time.Time { return now }, func(context.Context) { runs++ })
	for end := now.Add(time.Hour); now.Before(end); now = now.Add(20 * time.Second) {
		do(t.Context())
		do(t.Context())
	}
	if runs != 6 {
		t.Errorf("%d runs within an hour", runs)
	}
	now = now.Add(-time.Hour) // the clock is set back
	if do(t.Context()); runs != 7 {
		t.Errorf("%d runs, the last after the clock was set back", runs)
	}
}
