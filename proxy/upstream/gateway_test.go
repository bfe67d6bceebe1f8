package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
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
