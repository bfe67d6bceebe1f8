package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// Jobs keep what they read for good, so they need a clock that is about right. Customers' requests do not.
func TestQueryNeedsTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		date  []string
		fails bool
	}{
		"right":           {[]string{"Thu, 01 Jan 1970 00:00:00 GMT"}, false},
		"a day ahead":     {[]string{"Wed, 31 Dec 1969 00:00:00 GMT"}, false},
		"more than a day": {[]string{"Tue, 30 Dec 1969 23:59:59 GMT"}, true},
		"weeks behind":    {[]string{"Sun, 01 Feb 1970 00:00:00 GMT"}, false},
		"no date":         {nil, false},
		"a malformed one": {[]string{"yesterday"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Date"] = c.date
				ok(rowsOfDevices)(w, r)
			})
			free := func(context.Context) error { return nil }
			if _, err := g.ChargedQuery(t.Context(), target(), devices(), free); err != nil {
				t.Errorf("a request: %v", err)
			}
			switch err := g.query(t, target()); {
			case !c.fails && err != nil:
				t.Errorf("a job: %v", err)
			case c.fails && (kindOf(t, err) != Misconfigured || !strings.Contains(err.Error(), "24 hours ahead")):
				t.Errorf("a job: %v", err)
			}
		})
	}
}

// A proxy that gives up on Search Console may have a clock of its own.
func TestQueryIgnoresTheClockOfAProxy(t *testing.T) {
	g := newGated(t, nil)
	g.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Tue, 30 Dec 1969 23:59:59 GMT")
		status(503, "{}")(w, r)
		g.answer(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil
			ok(rowsOfDevices)(w, r)
		})
	})
	if err := g.query(t, target()); err != nil || g.calls() != 2 {
		t.Errorf("%v after %d calls", err, g.calls())
	}
}
