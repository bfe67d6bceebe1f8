package collector

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/proxy/upstream"
	"sara/translate"
)

// busyDays returns the first n days of a span that the upstream certainly shows with traffic.
func (w *fakeUpstream) busyDays(id string, span Span, n int) (days []translate.Date) {
	w.t.Helper()
	site := w.property(id).Site
	for day := *span.Since; len(days) < n; day++ {
		if day > w.anchor() {
			w.t.Fatalf("%d days of %s with traffic", len(days), id)
		}
		if w.kind(site, day) == busy && w.isKnown(site, day) {
			days = append(days, day)
		}
	}
	return days
}

// A person has to know of the days that are missing for good, whatever else keeps a property from being complete.
func TestContradictedDaysAreReportedBesideAFailure(t *testing.T) {
	for name, test := range map[string]struct {
		kind upstream.Kind
		only bool // one day fails, not all from it on
	}{"an outage": {kind: upstream.Unavailable}, "a bad day": {upstream.Unavailable, true}, "a lost connection": {kind: upstream.Revoked}} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t, nil)
			span := w.weeks(2)
			days := w.busyDays("shop", span, 5)
			odd, bad := days[1], days[3]
			w.failing(func(_ upstream.Target, q translate.Query) error {
				if q.Dimension == translate.ByPage && (q.Range.Start == bad || q.Range.Start > bad && !test.only) {
					return fail(test.kind, 0)
				}
				return nil
			})
			c := w.collector(t.TempDir(), func(c *Config) { c.Gateway, c.RetryPause = lyingGateway{w, odd}, time.Millisecond })
			results, err := c.Collect(t.Context(), w.properties("shop"), span)
			check(t, err)
			contradiction, ok := errors.AsType[*ContradictionError](results[0].Err)
			if !ok || !slices.Equal(contradiction.Days, []translate.Date{odd}) || !errors.Is(results[0].Err, errDown) {
				t.Errorf("got %v", results[0].Err)
			}
			note := w.state("shop").Note
			if !strings.Contains(note, odd.String()) || !strings.Contains(note, errDown.Error()) || strings.Contains(note, "\n") {
				t.Errorf("noted %q", note)
			}
		})
	}
}

// fullHistory is a History that takes some days only.
type fullHistory struct {
	History
	left int
}

func (h *fullHistory) Merge(ctx context.Context, property string, days []archive.Day) error {
	if h.left--; h.left < 0 {
		return &archive.ObjectError{Name: "a month", Reason: errors.New("no space left")}
	}
	return h.History.Merge(ctx, property, days)
}

// The rows of the days that are archived by then are not asked for again.
func TestLeftRowsAreReportedBesideAFailure(t *testing.T) {
	w, seen := newUpstream(t, nil), &notices{}
	odd := &oddGateway{fakeUpstream: w}
	c := w.collector(t.TempDir(), func(c *Config) {
		c.Gateway, c.Progress, c.FlushDays, c.History = odd, seen, 1, &fullHistory{c.History, 2}
	})
	results, err := c.Collect(t.Context(), w.properties("shop"), w.weeks(2))
	check(t, err)
	if _, ok := errors.AsType[*archive.ObjectError](results[0].Err); !ok || results[0].Days != 2 {
		t.Errorf("%d days are archived, and %v", results[0].Days, results[0].Err)
	}
	if len(seen.all) != 1 || seen.all[0] != odd.without || odd.without == 0 {
		t.Errorf("%d rows without a key, and the notices %v", odd.without, seen.all)
	}
}
