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

// guarded is a client with a clock of its own before a scripted Search Console whose next answer a test sets.
type guarded struct {
	*google
	*Client
	clock    settable
	registry *prometheus.Registry
	next     atomic.Pointer[http.HandlerFunc]
}

func newGuarded(t *testing.T, next http.HandlerFunc) *guarded {
	u := &guarded{registry: prometheus.NewRegistry()}
	u.answer(next)
	u.google = newGoogle(t, func(w http.ResponseWriter, r *http.Request) { (*u.next.Load())(w, r) })
	cfg := u.config()
	cfg.Now, cfg.Registerer = u.clock.Now, u.registry
	u.Client = newClient(t, cfg)
	t.Cleanup(u.CloseClientConnections)
	return u
}

func (u *guarded) answer(next http.HandlerFunc) { u.next.Store(&next) }

func (u *guarded) ask(t *testing.T, acct Account) error {
	t.Helper()
	_, err := u.SearchAnalytics(t.Context(), acct, site, question)
	return err
}

// fail makes calls that fail because the host does.
func (u *guarded) fail(t *testing.T, acct Account, times int) {
	t.Helper()
	for range times {
		if err := u.ask(t, acct); err == nil || kindOf(t, err) != Unavailable || isRefusal(err) {
			t.Fatalf("got %v, want a failure of the host", err)
		}
	}
}

func isRefusal(err error) bool { return err != nil && strings.Contains(err.Error(), "left alone") }

// wantRefusal is for an error that says to come back after the wait.
func wantRefusal(t *testing.T, err error, wait time.Duration) {
	t.Helper()
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Kind != Unavailable || failure.RetryAfter != wait || !strings.Contains(failure.Message, "left alone for "+wait.String()) {
		t.Errorf("got %v, want to be refused for %v", err, wait)
	}
}

// metric sums the values of a metric that have a label.
func (u *guarded) metric(t *testing.T, name, label string) (sum float64) {
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

func TestAHostThatFailsFiveCallsInARowIsLeftAloneForTenSeconds(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresInARow-1)
	u.answer(ok(empty))
	if err := u.ask(t, acct); err != nil {
		t.Fatalf("four failures are not five: %v", err)
	}
	u.answer(status(503, "{}"))
	u.fail(t, acct, failuresInARow)
	before := u.calls()
	refusedEverywhere := func(wait time.Duration) {
		t.Helper()
		wantRefusal(t, u.ask(t, acct), wait)
		_, err := u.Sites(t.Context(), acct)
		wantRefusal(t, err, wait)
		wantRefusal(t, u.Check(t.Context(), acct), wait)
	}
	refusedEverywhere(10 * time.Second)
	u.clock.advance(9500 * time.Millisecond)
	u.answer(ok(empty))
	refusedEverywhere(time.Second)
	if u.calls() != before {
		t.Errorf("%d calls were sent to a host that is left alone", u.calls()-before)
	}
	for name, want := range map[string]float64{"sara_upstream_breaker_open": 1, "sara_upstream_breaker_refused_total": 4} {
		if got := u.metric(t, name, "search_console"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if n := u.metric(t, "sara_upstream_calls_total", "unavailable"); n != 2*failuresInARow-1 {
		t.Errorf("%v calls counted, want those that were sent", n)
	}
	u.clock.advance(500 * time.Millisecond)
	for range 3 {
		if err := errors.Join(u.Check(t.Context(), acct), u.ask(t, acct)); err != nil {
			t.Errorf("after ten seconds: %v", err)
		}
	}
	if u.metric(t, "sara_upstream_breaker_open", "search_console") != 0 {
		t.Error("the metric says that the host is left alone still")
	}
	u.answer(status(503, "{}"))
	u.fail(t, acct, failuresInARow) // counted from none again
}

func TestOnlyAHostThatDoesNotAnswerHasFailed(t *testing.T) {
	leave := func(u *guarded, acct Account) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		u.answer(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			hang(w, r)
		})
		_, err := u.SearchAnalytics(ctx, acct, site, question)
		return err
	}
	hurry := func(u *guarded, acct Account) error {
		u.answer(hang)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := u.SearchAnalytics(ctx, acct, site, question)
		return err
	}
	answer := func(h http.HandlerFunc) func(*guarded, Account) error {
		return func(u *guarded, acct Account) error {
			u.answer(h)
			_, err := u.SearchAnalytics(context.Background(), acct, site, question)
			return err
		}
	}
	f := func(name string, call func(*guarded, Account) error, kind Kind, want verdict) {
		t.Run(name, func(t *testing.T) {
			u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
			u.fail(t, acct, failuresInARow-1)
			if err := call(u, acct); kindOf(t, err) != kind {
				t.Fatalf("got %v, want %v", err, kind)
			}
			if refused := isRefusal(u.Check(t.Context(), acct)); refused != (want == failed) {
				t.Errorf("left alone after four failures and this: %v", refused)
			}
			if want == failed {
				return
			}
			u.clock.advance(refusalMemory) // of a revoked token
			u.answer(status(503, "{}"))
			u.fail(t, acct, 1)
			if refused := isRefusal(u.Check(t.Context(), acct)); refused != (want == silent) {
				t.Errorf("left alone after four failures, this and one more: %v", refused)
			}
		})
	}
	f("quota", answer(status(429, "{}")), Quota, answered)
	f("forbidden", answer(status(403, string(fixture(t, "forbidden_site.json")))), Forbidden, answered)
	f("rejected", answer(status(400, string(fixture(t, "invalid_argument.json")))), Rejected, answered)
	f("revoked", answer(status(401, string(fixture(t, "unauthenticated.json")))), Revoked, answered)
	f("dropped", answer(drop), Unavailable, failed)
	f("nonsense", answer(ok("<html>")), Unavailable, failed)
	f("too slow for the caller", hurry, Interrupted, failed)
	f("a caller who left", leave, Interrupted, silent)
}

// gate answers one request when it is opened; arrived tells that the request is there.
func gate(then http.HandlerFunc) (h http.HandlerFunc, arrived, open chan struct{}) {
	arrived, open = make(chan struct{}), make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-open
		then(w, r)
	}, arrived, open
}

func TestOneCallProbesAHostThatWasLeftAlone(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresInARow)
	u.clock.advance(rest)
	h, arrived, open := gate(ok(empty))
	u.answer(h)
	probe := make(chan error, 1)
	go func() {
		_, err := u.SearchAnalytics(t.Context(), acct, site, question)
		probe <- err
	}()
	<-arrived
	wantRefusal(t, u.ask(t, acct), time.Second)
	wantRefusal(t, u.Check(t.Context(), acct), time.Second)
	close(open)
	if err := <-probe; err != nil {
		t.Error(err)
	}
	u.answer(ok(empty))
	if err := errors.Join(u.Check(t.Context(), acct), u.ask(t, acct)); err != nil {
		t.Errorf("after the probe: %v", err)
	}
}

func TestAFailedProbeLeavesTheHostAloneAgain(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresInARow)
	for range 3 {
		u.clock.advance(rest)
		u.fail(t, acct, 1)
		wantRefusal(t, u.ask(t, acct), rest)
	}
	if n := u.metric(t, "sara_upstream_breaker_open", "search_console"); n != 1 {
		t.Errorf("the metric says %v hosts are left alone, want 1", n)
	}
}

func TestWhenTheCallerOfAProbeLeavesTheNextCallIsTheProbe(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	u.fail(t, acct, failuresInARow)
	u.clock.advance(rest)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	u.answer(func(w http.ResponseWriter, r *http.Request) {
		leave()
		hang(w, r)
	})
	if _, err := u.SearchAnalytics(ctx, acct, site, question); kindOf(t, err) != Interrupted {
		t.Errorf("the probe: %v", err)
	}
	sealed := errors.New("wrong key")
	unreadable := Account{ID: "c2", Credentials: func(context.Context) ([]byte, error) { return nil, sealed }}
	if err := u.ask(t, unreadable); !errors.Is(err, sealed) {
		t.Errorf("a probe without credentials: %v", err)
	}
	u.answer(ok(empty))
	if err := errors.Join(u.ask(t, acct), u.ask(t, acct)); err != nil {
		t.Errorf("after the probes that nobody waited for: %v", err)
	}
}

// What was under way when the host was given up neither ends the rest nor lengthens it.
func TestLateResultsSayNothingOfAHostThatIsLeftAlone(t *testing.T) {
	u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
	if err := u.Check(t.Context(), acct); err != nil {
		t.Fatal(err)
	}
	for _, late := range []http.HandlerFunc{ok(empty), status(400, "{}"), drop} {
		h, arrived, open := gate(late)
		u.answer(h)
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = u.SearchAnalytics(t.Context(), acct, site, question) }) // how it ends is not the question
		<-arrived
		u.answer(status(503, "{}"))
		u.fail(t, acct, failuresInARow)
		u.clock.advance(rest / 2)
		close(open)
		calls.Wait()
		wantRefusal(t, u.ask(t, acct), rest/2)
		u.clock.advance(rest / 2)
		u.answer(ok(empty))
		if err := u.ask(t, acct); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATokenEndpointIsLeftAloneByItself(t *testing.T) {
	_, key := newKey(t)
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
	robot := account(t, serviceAccount(key, u.URL+"/token?for=robots"))
	robot.ID = "connection-3"
	if err := u.ask(t, with); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	u.fail(t, without, failuresInARow)
	before := u.google.tokens.Load()
	wantRefusal(t, u.ask(t, without), rest)
	wantRefusal(t, u.Check(t.Context(), without), rest)
	if n := u.google.tokens.Load() - before; n != 0 || u.metric(t, "sara_upstream_breaker_open", "token") != 1 {
		t.Errorf("%d token requests to an endpoint that is left alone", n)
	}
	if err := errors.Join(u.Check(t.Context(), with), u.ask(t, with)); err != nil {
		t.Errorf("a connection with a token: %v", err)
	}
	u.fail(t, robot, 1) // another endpoint, which is asked
	down.Store(false)
	u.clock.advance(rest)
	if err := errors.Join(u.ask(t, without), u.ask(t, robot)); err != nil {
		t.Errorf("after the rest: %v", err)
	}
	if u.metric(t, "sara_upstream_breaker_open", "token")+u.metric(t, "sara_upstream_breaker_refused_total", "search_console") != 0 {
		t.Error("the metrics blame a host that is up")
	}
}
