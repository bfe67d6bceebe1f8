package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lockedStore is a Connections that another process has locked.
type lockedStore struct{ Connections }

func (lockedStore) SetConnectionHealth(ctx context.Context, _ string, _ int, _ string) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func (lockedStore) SetPropertyAccess(ctx context.Context, _, _ string) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func TestLockedStoreDelaysAnAnswerByTwoSecondsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{store: lockedStore{}, log: slog.New(slog.DiscardHandler), now: time.Now}
		began := time.Now()
		r.readable(t.Context(), Target{PropertyID: "property-1", AccessNote: "no access", ConnectionID: "connection-1"})
		if took := time.Since(began); took != 2*recordTimeout {
			t.Errorf("the answer waited %v", took)
		}
	})
}

// What an answer showed is recorded even if its caller has left.
func TestHealthIsRecordedWithoutTheCaller(t *testing.T) {
	s := new(store)
	r := &recorder{store: endingStore{s}, log: slog.New(slog.DiscardHandler), now: time.Now}
	left, leave := context.WithCancel(t.Context())
	leave()
	r.connectionFailure(left, target(), &Error{Kind: Revoked})
	if got := s.take(); len(got) != 1 {
		t.Errorf("recorded %q", got)
	}
}

// endingStore records nothing once the context has ended, as a database does.
type endingStore struct{ *store }

func (s endingStore) SetConnectionHealth(ctx context.Context, id string, revision int, note string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return s.store.SetConnectionHealth(ctx, id, revision, note)
}

func TestQueryRecordsHealth(t *testing.T) {
	const accessNote = "property-1 The connected account has no access to the property in Search Console."
	forbidden := status(403, string(fixture(t, "forbidden_site.json")))
	broken, lost := target(), target()
	broken.Healthy, lost.AccessNote = false, "no access"
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		target Target
		want   []string
	}{
		"ok":                          {ok(rowsOfDevices), target(), nil},
		"ok again":                    {ok(rowsOfDevices), broken, []string{"connection-1 works"}},
		"access again":                {ok(rowsOfDevices), lost, []string{"property-1"}},
		"forbidden":                   {forbidden, target(), []string{accessNote}},
		"forbidden: a working token":  {forbidden, broken, []string{"connection-1 works", accessNote}},
		"forbidden: first note stays": {forbidden, lost, nil},
		"revoked": {status(401, "{}"), target(),
			[]string{"connection-1 fails The connection to Search Console was revoked or has expired: connect the account again."}},
		"misconfigured": {status(403, string(fixture(t, "scope_new.json"))), target(),
			[]string{"connection-1 fails The connection to Search Console does not work: the credentials lack the scope " + scope +
				": connect again and grant it"}},
		"still misconfigured": {status(403, string(fixture(t, "scope_new.json"))), broken, nil},
		"quota":               {status(429, "{}"), broken, nil},
		"rejected":            {status(400, "{}"), broken, nil},
		"unavailable":         {status(503, "{}"), broken, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, test.answer)
			_ = g.query(t, test.target) // its errors are tested elsewhere
			if got := g.store.take(); !slices.Equal(got, test.want) {
				t.Errorf("recorded %q, want %q", got, test.want)
			}
			if lines := strings.Count(g.log.String(), "changed: "); lines != len(test.want) {
				t.Errorf("%d changes are logged, want %d", lines, len(test.want))
			}
		})
	}
}

// Inspecting needs more permissions than reading, so its refusal shows nothing about the property.
func TestInspectAndSitemapsRecordHealth(t *testing.T) {
	lost := target()
	lost.Healthy, lost.AccessNote = false, "no access"
	for name, test := range map[string]struct {
		answer            http.HandlerFunc
		target            Target
		inspect, sitemaps []string
	}{
		"ok":               {ok(`{"inspectionResult":{"indexStatusResult":{}}}`), lost, []string{"connection-1 works", "property-1"}, nil},
		"forbidden":        {status(403, string(fixture(t, "forbidden_denied.json"))), lost, nil, nil},
		"forbidden again":  {status(403, string(fixture(t, "forbidden_denied.json"))), target(), nil, nil},
		"quota of its own": {status(429, "{}"), target(), nil, nil},
		"revoked":          {status(401, "{}"), target(), []string{"connection-1 fails " + noteRevoked}, []string{"connection-1 fails " + noteRevoked}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, test.answer)
			_, _ = g.Inspect(t.Context(), test.target, site, nil)
			if got := g.store.take(); !slices.Equal(got, test.inspect) {
				t.Errorf("Inspect recorded %q, want %q", got, test.inspect)
			}
			g = newGated(t, test.answer)
			_, _ = g.Sitemaps(t.Context(), test.target)
			if got := g.store.take(); !slices.Equal(got, test.sitemaps) {
				t.Errorf("Sitemaps recorded %q, want %q", got, test.sitemaps)
			}
			g.answer(ok(rowsOfDevices))
			g.clock.advance(deadMemory)
			if err := g.query(t, test.target); err != nil {
				t.Errorf("a query after it: %v", err)
			}
		})
	}
}

// A job lists its properties once and then makes many calls with targets that grow stale.
func TestStaleTargetsCostOneWriteAMinute(t *testing.T) {
	g := newGated(t, ok(rowsOfDevices))
	old := target()
	old.Healthy, old.AccessNote = false, "no access"
	for range 10 {
		if err := g.query(t, old); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.store.take(); len(got) != 2 {
		t.Errorf("recorded %q, want one write each for the connection and the property", got)
	}
	g.answer(status(401, "{}"))
	_ = g.query(t, old)
	if got := g.store.take(); len(got) != 1 {
		t.Errorf("recorded %q of a connection that fails again", got)
	}
	g.answer(ok(rowsOfDevices))
	g.clock.advance(recordMemory)
	_ = g.query(t, old)
	if got := g.store.take(); len(got) != 2 {
		t.Errorf("recorded %q after a minute", got)
	}
}

func TestFailedRecordsAreLoggedAndRetried(t *testing.T) {
	g := newGated(t, ok(rowsOfDevices))
	lost := target()
	lost.AccessNote = "no access"
	if err := g.query(t, lost); err != nil { // which has the token from now on
		t.Fatal(err)
	}
	g.clock.advance(recordMemory)
	g.store.take()
	g.store.err = errors.New("disk full")
	for range 2 {
		if err := g.query(t, lost); err != nil {
			t.Errorf("the answer depends on the record: %v", err)
		}
	}
	if got := g.store.take(); len(got) != 2 || strings.Count(g.log.String(), `msg="cannot record the access to a property"`) != 2 {
		t.Errorf("recorded %q, logged %s", got, g.log)
	}
}
