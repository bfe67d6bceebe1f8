package inspector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/translate"
)

// A failingStore is a store, with its leases, whose methods fail from one of their calls on.
type failingStore struct {
	*sqlstore.Store
	mu   sync.Mutex
	left map[string]int // calls of a method before it fails; absent: it never does
}

func (s *failingStore) fail(method string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, fails := s.left[method]
	if !fails {
		return nil
	}
	s.left[method] = left - 1
	if left > 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errDown, method)
}

func (s *failingStore) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if err := s.fail("AcquireLease"); err != nil {
		return false, err
	}
	return s.Store.AcquireLease(ctx, name, holder, ttl)
}

// current is the member Current of a configuration.
func (s *failingStore) current(w *fakeUpstream) func(ctx context.Context, id string) (Property, bool, error) {
	return func(ctx context.Context, id string) (Property, bool, error) {
		if err := s.fail("Current"); err != nil {
			return Property{}, false, err
		}
		return w.current(ctx, id)
	}
}

func (s *failingStore) SaveIndexRun(ctx context.Context, state sqlstore.IndexState) error {
	if err := s.fail("SaveIndexRun"); err != nil {
		return err
	}
	return s.Store.SaveIndexRun(ctx, state)
}

func (s *failingStore) SaveDiscovery(ctx context.Context, id string, d sqlstore.Discovery) error {
	if err := s.fail("SaveDiscovery"); err != nil {
		return err
	}
	return s.Store.SaveDiscovery(ctx, id, d)
}

func (s *failingStore) TrackedURLs(ctx context.Context, id string) ([]sqlstore.TrackedURL, error) {
	if err := s.fail("TrackedURLs"); err != nil {
		return nil, err
	}
	return s.Store.TrackedURLs(ctx, id)
}

func (s *failingStore) StageInspection(ctx context.Context, id string, i sqlstore.Inspection) error {
	if err := s.fail("StageInspection"); err != nil {
		return err
	}
	return s.Store.StageInspection(ctx, id, i)
}

func (s *failingStore) PublishInspections(ctx context.Context, id string, day translate.Date, at time.Time) (int, error) {
	if err := s.fail("PublishInspections"); err != nil {
		return 0, err
	}
	return s.Store.PublishInspections(ctx, id, day, at)
}

// A run follows one that was interrupted after the first of three URLs. What the store refuses is the error of the property; what was
// staged is published as soon as the store allows it, and the next run has only the rest to do.
func TestFailuresOfTheStoreAreReportedAndLoseNoResult(t *testing.T) {
	for name, test := range map[string]struct {
		before    map[string]int // calls of each method that succeed
		calls     int            // inspections
		published int            // of this day's results
		rest      int            // inspections of the next run
	}{
		"no lease":              {map[string]int{"AcquireLease": 0}, 0, 0, 2},
		"no state":              {map[string]int{"Current": 0}, 0, 0, 2},
		"no URLs":               {map[string]int{"TrackedURLs": 0}, 0, 0, 2},
		"no publication":        {map[string]int{"PublishInspections": 0}, 0, 0, 2},
		"no discovery":          {map[string]int{"SaveDiscovery": 0}, 2, 3, 0},
		"no URLs once found":    {map[string]int{"TrackedURLs": 1}, 0, 1, 2},
		"no result":             {map[string]int{"StageInspection": 0}, 1, 1, 2},
		"no second result":      {map[string]int{"StageInspection": 1}, 2, 2, 1},
		"no publication at end": {map[string]int{"PublishInspections": 1}, 2, 1, 0},
		"no discovery and end":  {map[string]int{"SaveDiscovery": 0, "PublishInspections": 1}, 2, 1, 0},
		"no end":                {map[string]int{"SaveIndexRun": 0}, 2, 3, 0},
		"no result and end":     {map[string]int{"StageInspection": 0, "SaveIndexRun": 0}, 1, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
				w.serve(shopMap, urls("shop", 3)...)
				w.inspect("shop", Options{})
				time.Sleep(24 * time.Hour)
				w.label = func(string) string { return "Soft 404" }
				ctx, interrupt := context.WithCancel(t.Context())
				w.during = func(context.Context, string) { interrupt() }
				if _, err := w.inspector().Inspect(ctx, w.properties("shop"), Options{}); !errors.Is(err, context.Canceled) {
					t.Fatalf("interrupted: %v", err)
				}
				w.during = nil
				w.inspectedURLs()
				time.Sleep(time.Minute)

				store := &failingStore{Store: w.store, left: test.before}
				failing := func(c *Config) { c.Store, c.Leases, c.Current = store, store, store.current(w) }
				r := w.inspect("shop", Options{}, failing)
				for method := range test.before {
					if !errors.Is(r.Err, errDown) || !strings.Contains(r.Err.Error(), method) || strings.Contains(r.Err.Error(), "%!") {
						t.Errorf("the error without %s: %v", method, r.Err)
					}
				}
				equal(t, "calls", len(w.inspectedURLs()), test.calls)
				published := 0
				for _, result := range w.results("shop") {
					if result.CoverageState == "Soft 404" {
						published++
					}
				}
				equal(t, "published", published, test.published)
				if at := w.summary("shop").State.InspectedAt; w.calendar.Day(*at) >= w.calendar.Day(time.Now()) {
					t.Errorf("the day counts as inspected, at %s", at)
				}

				time.Sleep(time.Minute)
				r = w.inspect("shop", Options{})
				equal(t, "the next run", []any{len(w.inspectedURLs()), r.Left, r.Err}, []any{test.rest, 0, nil})
				if s := w.summary("shop"); s.State.Failures != 0 || s.State.Note != "" || s.Trend[len(s.Trend)-1].Error != 3 {
					t.Errorf("stored %+v", s)
				}
			})
		})
	}
}
