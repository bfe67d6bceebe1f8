package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scripted is a Search Console whose next answer a test sets, with the clock and the registry of its client.
type scripted struct {
	*google
	clock    settable
	registry *prometheus.Registry
	next     atomic.Pointer[http.HandlerFunc]
}

func script(t *testing.T, next http.HandlerFunc) *scripted {
	s := &scripted{registry: prometheus.NewRegistry()}
	s.answer(next)
	s.google = newGoogle(t, func(w http.ResponseWriter, r *http.Request) { (*s.next.Load())(w, r) })
	return s
}

func (s *scripted) answer(next http.HandlerFunc) { s.next.Store(&next) }

func (s *scripted) config() Config {
	cfg := s.google.config()
	cfg.Now, cfg.Registerer = s.clock.Now, s.registry
	return cfg
}

// guarded is a client in front of a scripted Search Console.
type guarded struct {
	*scripted
	*client
}

func newGuarded(t *testing.T, next http.HandlerFunc) *guarded {
	s := script(t, next)
	u := &guarded{scripted: s, client: startClient(t, s.config())}
	t.Cleanup(u.CloseClientConnections)
	return u
}

func (u *guarded) ask(t *testing.T, acct Account) error {
	t.Helper()
	_, err := u.searchAnalytics(t.Context(), acct, site, queryBody, nil)
	return err
}

// refusal returns the error that a call would be refused with; nil if it would be admitted.
func (u *guarded) refusal(acct Account) error { return u.analytics.check(circuitKey{acct.ID, site}) }

// fail makes calls that get no answer.
func (u *guarded) fail(t *testing.T, acct Account, times int) {
	t.Helper()
	for range times {
		if err := u.ask(t, acct); err == nil || kindOf(t, err) != Unavailable || isRefusal(err) {
			t.Fatalf("got %v, want a failed call", err)
		}
	}
}

func isRefusal(err error) bool {
	return err != nil && strings.Contains(err.Error(), "circuit breaker is open")
}

// wantRefusal checks for the error of an open breaker, with the wait as its RetryAfter.
func wantRefusal(t *testing.T, err error, wait time.Duration) {
	t.Helper()
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Kind != Unavailable || failure.RetryAfter != wait || !strings.Contains(failure.Message, "open for another "+wait.String()) {
		t.Errorf("got %v, want to be refused for %v", err, wait)
	}
}

// metric sums the values of a metric that have a label.
func (u *scripted) metric(t *testing.T, name, label string) (sum float64) {
	t.Helper()
	families, err := u.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == name && l.GetValue() == label {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

func TestBreakerOpensForTenSecondsAfterFiveFailures(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresToOpen-1)
	u.answer(ok(empty))
	if err := u.ask(t, acct); err != nil {
		t.Fatalf("four failures are not five: %v", err)
	}
	u.answer(status(503, "{}"))
	u.fail(t, acct, failuresToOpen)
	before := u.calls()
	refusedEverywhere := func(wait time.Duration) {
		t.Helper()
		wantRefusal(t, u.ask(t, acct), wait)
		wantRefusal(t, u.refusal(acct), wait)
	}
	refusedEverywhere(10 * time.Second)
	u.clock.advance(9500 * time.Millisecond)
	u.answer(ok(empty))
	refusedEverywhere(time.Second)
	if u.calls() != before {
		t.Errorf("%d calls passed an open breaker", u.calls()-before)
	}
	for name, want := range map[string]float64{"sara_upstream_breaker_open": 1, "sara_upstream_breaker_refused_total": 2} {
		if got := u.metric(t, name, "property"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if n := u.metric(t, "sara_upstream_calls_total", "unavailable"); n != 2*failuresToOpen-1 {
		t.Errorf("%v calls counted, want those that were sent", n)
	}
	u.clock.advance(500 * time.Millisecond)
	for range 3 {
		if err := errors.Join(u.refusal(acct), u.ask(t, acct)); err != nil {
			t.Errorf("after ten seconds: %v", err)
		}
	}
	if u.metric(t, "sara_upstream_breaker_open", "property") != 0 {
		t.Error("the metric shows the breaker as open")
	}
	u.answer(status(503, "{}"))
	u.fail(t, acct, failuresToOpen) // counted from zero again
}

func TestBreakerCountsOnlyMissingAnswers(t *testing.T) {
	leave := func(u *guarded, acct Account) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		u.answer(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			hang(w, r)
		})
		_, err := u.searchAnalytics(ctx, acct, site, queryBody, nil)
		return err
	}
	hurry := func(u *guarded, acct Account) error {
		u.answer(hang)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := u.searchAnalytics(ctx, acct, site, queryBody, nil)
		return err
	}
	answer := func(h http.HandlerFunc) func(*guarded, Account) error {
		return func(u *guarded, acct Account) error {
			u.answer(h)
			_, err := u.searchAnalytics(context.Background(), acct, site, queryBody, nil)
			return err
		}
	}
	f := func(name string, call func(*guarded, Account) error, kind Kind, want result) {
		t.Run(name, func(t *testing.T) {
			u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
			u.fail(t, acct, failuresToOpen-1)
			if err := call(u, acct); kindOf(t, err) != kind {
				t.Fatalf("got %v, want %v", err, kind)
			}
			if refused := isRefusal(u.refusal(acct)); refused != (want == failure) {
				t.Errorf("open after four failures and this: %v", refused)
			}
			if want == failure {
				return
			}
			u.clock.advance(deadMemory) // of a revoked token
			u.answer(status(503, "{}"))
			u.fail(t, acct, 1)
			if refused := isRefusal(u.refusal(acct)); refused != (want == inconclusive) {
				t.Errorf("open after four failures, this and one more: %v", refused)
			}
		})
	}
	f("quota", answer(status(429, "{}")), Quota, success)
	f("forbidden", answer(status(403, string(fixture(t, "forbidden_site.json")))), Forbidden, success)
	f("rejected", answer(status(400, string(fixture(t, "invalid_argument.json")))), Rejected, success)
	f("revoked", answer(status(401, string(fixture(t, "unauthenticated.json")))), Revoked, success)
	f("dropped", answer(drop), Unavailable, failure)
	f("nonsense", answer(ok("<html>")), Unavailable, failure)
	f("too slow for the caller", hurry, Interrupted, failure)
	f("a caller who left", leave, Interrupted, inconclusive)
}

// gate answers one request once open is closed; arrived closes when the request has arrived.
func gate(then http.HandlerFunc) (h http.HandlerFunc, arrived, open chan struct{}) {
	arrived, open = make(chan struct{}), make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-open
		then(w, r)
	}, arrived, open
}

func TestHalfOpenBreakerAdmitsOneProbe(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresToOpen)
	u.clock.advance(openTime)
	h, arrived, open := gate(ok(empty))
	u.answer(h)
	probe := make(chan error, 1)
	go func() {
		_, err := u.searchAnalytics(t.Context(), acct, site, queryBody, nil)
		probe <- err
	}()
	<-arrived
	wantRefusal(t, u.ask(t, acct), time.Second)
	wantRefusal(t, u.refusal(acct), time.Second)
	close(open)
	if err := <-probe; err != nil {
		t.Error(err)
	}
	u.answer(ok(empty))
	if err := errors.Join(u.refusal(acct), u.ask(t, acct)); err != nil {
		t.Errorf("after the probe: %v", err)
	}
}

func TestFailedProbeOpensTheBreakerAgain(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresToOpen)
	for range 3 {
		u.clock.advance(openTime)
		u.fail(t, acct, 1)
		wantRefusal(t, u.ask(t, acct), openTime)
	}
	if n := u.metric(t, "sara_upstream_breaker_open", "property"); n != 1 {
		t.Errorf("the metric shows %v open breakers, want 1", n)
	}
}

func TestInconclusiveProbeIsFollowedByAnother(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresToOpen)
	u.clock.advance(openTime)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	u.answer(func(w http.ResponseWriter, r *http.Request) {
		leave()
		hang(w, r)
	})
	if _, err := u.searchAnalytics(ctx, acct, site, queryBody, nil); kindOf(t, err) != Interrupted {
		t.Errorf("the probe: %v", err)
	}
	sealed := errors.New("wrong key")
	unreadable := Account{ID: "c2", Credentials: func(context.Context) ([]byte, error) { return nil, sealed }}
	if err := u.ask(t, unreadable); !errors.Is(err, sealed) {
		t.Errorf("a probe without credentials: %v", err)
	}
	u.answer(ok(empty))
	if err := errors.Join(u.ask(t, acct), u.ask(t, acct)); err != nil {
		t.Errorf("after the inconclusive probes: %v", err)
	}
}

// A call from before the breaker opened neither closes it nor keeps it open longer.
func TestBreakerIgnoresCallsFromBeforeItOpened(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	if err := u.refusal(acct); err != nil {
		t.Fatal(err)
	}
	for _, late := range []http.HandlerFunc{ok(empty), status(400, "{}"), drop} {
		h, arrived, open := gate(late)
		u.answer(h)
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = u.searchAnalytics(t.Context(), acct, site, queryBody, nil) }) // its result does not matter
		<-arrived
		u.answer(status(503, "{}"))
		u.fail(t, acct, failuresToOpen)
		u.clock.advance(openTime / 2)
		close(open)
		calls.Wait()
		wantRefusal(t, u.ask(t, acct), openTime/2)
		u.clock.advance(openTime / 2)
		u.answer(ok(empty))
		if err := u.ask(t, acct); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokenEndpointHasBreakerOfItsOwn(t *testing.T) {
	u := newGuarded(t, ok(empty))
	var down atomic.Bool
	u.token = func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			status(503, "{}")(w, r)
			return
		}
		status(200, `{"access_token":"access-1","expires_in":3599}`)(w, r)
	}
	with, without := account(t, authorizedUser()), account(t, authorizedUser())
	without.ID = "connection-2"
	if err := u.ask(t, with); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	u.fail(t, without, failuresToOpen)
	before := u.google.tokens.Load()
	wantRefusal(t, u.ask(t, without), openTime)
	wantRefusal(t, u.check(t.Context(), without), openTime)
	if n := u.google.tokens.Load() - before; n != 0 || u.metric(t, "sara_upstream_breaker_open", "token") != 1 {
		t.Errorf("%d token requests passed an open breaker", n)
	}
	if err := errors.Join(u.check(t.Context(), with), u.ask(t, with)); err != nil {
		t.Errorf("a connection with a token: %v", err)
	}
	down.Store(false)
	u.clock.advance(openTime)
	if err := u.ask(t, without); err != nil {
		t.Errorf("after ten seconds: %v", err)
	}
	if u.metric(t, "sara_upstream_breaker_open", "token")+u.metric(t, "sara_upstream_breaker_refused_total", "search_console") != 0 {
		t.Error("the metrics count another breaker")
	}
}
