package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/translate"
)

// store is a Connections in memory. It has the same credentials for all connections, and logs what is recorded.
type store struct {
	credentials []byte
	err         error // of every method

	mu       sync.Mutex
	recorded []string
}

func (s *store) Credentials(context.Context, string) ([]byte, error) {
	return s.credentials, s.err
}

func (s *store) SetConnectionHealth(_ context.Context, id string, _ int, note string) (bool, error) {
	state := "works"
	if note != "" {
		state = "fails"
	}
	return s.record(strings.TrimSpace(id + " " + state + " " + note))
}

func (s *store) SetPropertyAccess(_ context.Context, id, note string) (bool, error) {
	return s.record(strings.TrimSpace(id + " " + note))
}

func (s *store) record(what string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, what)
	return s.err == nil, s.err
}

// take returns what was recorded since the last call.
func (s *store) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	recorded := s.recorded
	s.recorded = nil
	return recorded
}

// gated is a Gateway with its own clock in front of a scripted Search Console, whose next answer a test sets.
type gated struct {
	*scripted
	*Gateway
	store *store
	log   *strings.Builder
}

func newGated(t *testing.T, next http.HandlerFunc) *gated {
	s := script(t, next)
	g := &gated{scripted: s, store: &store{credentials: marshal(t, authorizedUser())}, log: new(strings.Builder)}
	cfg := s.config()
	cfg.Connections, cfg.Log = g.store, slog.New(slog.NewTextHandler(g.log, nil))
	var err error
	if g.Gateway, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	t.Cleanup(s.CloseClientConnections)
	return g
}

const rowsOfDevices = `{"rows":[{"keys":["MOBILE"],"clicks":1,"impressions":2,"ctr":0.5,"position":3}]}`

func devices() translate.Query {
	return translate.DayQuery(site, translate.ByDevice, translate.NewDate(2026, 11, 1), 10)
}

func target() Target {
	return Target{PropertyID: "property-1", Site: site, ConnectionID: "connection-1", Revision: 1, Healthy: true}
}

// query makes a free call.
func (g *gated) query(t *testing.T, target Target) error {
	t.Helper()
	_, err := g.Query(t.Context(), target, devices())
	return err
}

func TestQueryReturnsRowsAndChargesOnce(t *testing.T) {
	g := newGated(t, ok(rowsOfDevices))
	charges := 0
	rows, err := g.ChargedQuery(t.Context(), target(), devices(), func(context.Context) error { charges++; return nil })
	if err != nil || rows.Len() != 1 || string(rows.Key(0)) != "MOBILE" || charges != 1 {
		t.Errorf("%v, %d charges", err, charges)
	}
	if recorded := g.store.take(); len(recorded) != 0 {
		t.Errorf("recorded %v of a property that worked before", recorded)
	}
}

func TestQueryIsNotSentIfTheChargeFails(t *testing.T) {
	g := newGated(t, ok(rowsOfDevices))
	noBudget := errors.New("no budget left")
	if _, err := g.ChargedQuery(t.Context(), target(), devices(), func(context.Context) error { return noBudget }); err != noBudget || g.calls() != 0 {
		t.Errorf("got %v after %d calls", err, g.calls())
	}
}

func TestQueryRejectsMalformedAnswers(t *testing.T) {
	g := newGated(t, ok(`{"rows":[{"keys":["MOBILE"],"clicks":-1}]}`))
	if err := g.query(t, target()); kindOf(t, err) != Unavailable || !strings.Contains(err.Error(), "malformed answer") {
		t.Errorf("got %v", err)
	}
	g.answer(ok(`{"rows":[{"keys":["2026-01-01"],"clicks":1,"impressions":1,"ctr":1,"position":1}]}`))
	day := translate.NewDate(2026, 11, 1)
	series := translate.SeriesQuery(site, translate.DateRange{Start: day, End: day}, nil)
	if _, err := g.Query(t.Context(), target(), series); kindOf(t, err) != Unavailable {
		t.Errorf("a day out of the range: %v", err)
	}
}

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

// Each refusal is known before the charge is made, and costs no call once it is known.
func TestQueryRefusesWithoutCharge(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		fails  int // calls until the refusal is known
		kind   Kind
	}{
		"cooldown":        {status(403, string(fixture(t, "quota_load.json"))), 1, Quota},
		"negative cache":  {status(403, string(fixture(t, "forbidden_site.json"))), 1, Forbidden},
		"circuit breaker": {status(503, "{}"), failuresToOpen, Unavailable},
		"dead token":      {status(401, string(fixture(t, "unauthenticated.json"))), 1, Revoked},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, test.answer)
			for range test.fails {
				if err := g.query(t, target()); kindOf(t, err) != test.kind {
					t.Fatalf("got %v, want %v", err, test.kind)
				}
			}
			before := g.calls()
			_, err := g.ChargedQuery(t.Context(), target(), devices(), func(context.Context) error {
				t.Error("charged for a call that is refused")
				return nil
			})
			if kindOf(t, err) != test.kind || g.calls() != before {
				t.Errorf("got %v after %d more calls", err, g.calls()-before)
			}
			g.answer(ok(rowsOfDevices))
			g.clock.advance(15 * time.Minute)
			if err := g.query(t, target()); err != nil {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// A charge that takes all the time shows nothing about Search Console.
func TestQueryThatIsNotSentOpensNoCircuit(t *testing.T) {
	g := newGated(t, ok(rowsOfDevices))
	if err := g.query(t, target()); err != nil { // with a token in memory, only the charge takes time
		t.Fatal(err)
	}
	for range failuresToOpen {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now())
		_, err := g.ChargedQuery(ctx, target(), devices(), func(context.Context) error { return nil })
		if cancel(); kindOf(t, err) != Interrupted {
			t.Fatal(err)
		}
	}
	if err := g.query(t, target()); err != nil || g.calls() != 2 {
		t.Errorf("%v after %d calls", err, g.calls())
	}
}

// An inspection that a circuit breaker refuses uses none of the day's quota.
func TestInspectRefusesWithoutCharge(t *testing.T) {
	g := newGated(t, status(503, "{}"))
	charges := 0
	for range 2 * failuresToOpen {
		_, err := g.Inspect(t.Context(), target(), site, func(context.Context) error { charges++; return nil })
		if kindOf(t, err) != Unavailable {
			t.Fatal(err)
		}
	}
	if charges != failuresToOpen || g.calls() != failuresToOpen*maxAttempts {
		t.Errorf("%d charges for %d requests", charges, g.calls())
	}
}

// The circuit breaker is asked before the charge, and not again after it: of two calls that arrive when it is half-open, one is
// charged and sent. A probe whose charge fails leaves its place to the next call.
func TestHalfOpenBreakerChargesTheProbeOnly(t *testing.T) {
	g := newGated(t, status(503, "{}"))
	for range failuresToOpen {
		_ = g.query(t, target()) // fails
	}
	g.answer(ok(rowsOfDevices))
	g.clock.advance(openTime)
	noBudget := errors.New("no budget left")
	if _, err := g.ChargedQuery(t.Context(), target(), devices(), func(context.Context) error { return noBudget }); err != noBudget {
		t.Errorf("got %v", err)
	}
	before, charges := g.calls(), 0
	_, err := g.ChargedQuery(t.Context(), target(), devices(), func(context.Context) error {
		charges++
		_, err := g.ChargedQuery(t.Context(), target(), devices(), func(context.Context) error { charges++; return nil })
		wantRefusal(t, err, time.Second)
		return nil
	})
	if calls := g.calls() - before; err != nil || charges != 1 || calls != 1 {
		t.Errorf("%v after %d charges and %d calls", err, charges, calls)
	}
}

func TestForbiddenPropertyIsCachedForAMinute(t *testing.T) {
	g := newGated(t, status(403, string(fixture(t, "forbidden_site.json"))))
	other := target()
	other.PropertyID = "property-2"
	for _, test := range []struct {
		of      Target
		advance time.Duration
		calls   int
	}{{target(), 0, 1}, {target(), 59 * time.Second, 1}, {other, 0, 2}, {target(), time.Second, 3}} {
		g.clock.advance(test.advance)
		if err := g.query(t, test.of); kindOf(t, err) != Forbidden || g.calls() != test.calls {
			t.Errorf("%v after %d calls, want %d", err, g.calls(), test.calls)
		}
	}
}

// New credentials take effect at once, and a target that is not stored yet has no property ID.
func TestForbiddenPropertyIsCachedForItsCredentialsAndSite(t *testing.T) {
	g := newGated(t, status(403, string(fixture(t, "forbidden_site.json"))))
	stored, unstored := target(), target()
	unstored.PropertyID = ""
	for _, refused := range []Target{stored, unstored} {
		if err := g.query(t, refused); kindOf(t, err) != Forbidden {
			t.Fatal(err)
		}
	}
	g.answer(ok(rowsOfDevices))
	stored.Revision++
	unstored.Site = "sc-domain:example.org"
	for name, other := range map[string]Target{"new credentials": stored, "another site": unstored} {
		if err := g.query(t, other); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
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

func TestUnreadableCredentialsAreACredentialsError(t *testing.T) {
	g := newGated(t, ok(rowsOfDevices))
	g.store.err = errors.New("wrong key")
	err := g.query(t, target())
	failure, ok := errors.AsType[*CredentialsError](err)
	if !ok || failure.ConnectionID != "connection-1" || !errors.Is(err, g.store.err) || KindOf(err) != Unavailable {
		t.Errorf("got %v", err)
	}
	if got := g.store.take(); len(got) != 0 {
		t.Errorf("recorded %q", got)
	}
}

func TestKindOf(t *testing.T) {
	wrapped := errors.Join(errors.New("collect"), &Error{Kind: Revoked})
	if KindOf(wrapped) != Revoked || KindOf(errors.New("reset")) != Unavailable || KindOf(nil) != Unavailable {
		t.Error("not the kind of the *Error in it")
	}
}
