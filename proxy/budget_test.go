package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy"
	"sara/proxy/openapi"
)

// limited is a plan table with generous limits, except those that the test lowers for the pro plan.
func limited(lower func(*policy.Plan)) func(*Config) {
	return func(c *Config) {
		plan := c.Admission.Plans["pro"]
		lower(&plan)
		c.Admission.Plans["pro"] = plan
	}
}

// want429 checks a refusal by a budget: the code, the limit in the message, the headers of that limit, and that they agree.
func (w *world) want429(t *testing.T, r response, code, words string, limit int, wait time.Duration) {
	t.Helper()
	r.want(t, http.StatusTooManyRequests, code)
	message, _ := r.json["error"].(map[string]any)["message"].(string)
	seconds := int(wait / time.Second)
	if !strings.Contains(message, words) || !strings.HasSuffix(message, "; "+policy.TryAgainIn(wait)) {
		t.Errorf("the message is %q, want %q and %v", message, words, wait)
	}
	for name, want := range map[string]string{
		"Retry-After":           strconv.Itoa(seconds),
		"X-RateLimit-Limit":     strconv.Itoa(limit),
		"X-RateLimit-Remaining": "0",
		"X-RateLimit-Reset":     strconv.FormatInt(w.now().Add(wait).Unix(), 10),
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// wantUsage checks the usage of the account, including this request.
func (w *world) wantUsage(t *testing.T, key string, hour, day, calls int) {
	t.Helper()
	r := w.get(key, "/v1/me").ok(t)
	usage := r.data()["usage"].(map[string]any)
	got := fmt.Sprint(usage["requests_this_hour"], usage["requests_today"], usage["search_console_calls_today"])
	if want := fmt.Sprint(hour, day, calls); got != want {
		t.Errorf("usage of hour, day and calls is %s, want %s", got, want)
	}
	limits := r.data()["limits"].(map[string]any)
	left := limits["requests_per_day"].(float64) - float64(day)
	if got := r.header.Get("X-RateLimit-Remaining"); got != fmt.Sprint(left) {
		t.Errorf("X-RateLimit-Remaining is %s, want %v", got, left)
	}
}

// With a valid key, an answer that no allowance covers counts in the key's minute and in nothing else.
func TestUncoveredAnswers429RateLimited(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, key, method, path string
		limit, status           int
		code                    string
	}{
		{"an unknown path", "pro", http.MethodGet, "/v1/nothing", 20, http.StatusNotFound, policy.CodeNotFound},
		{"a wrong method", "pro", http.MethodPost, "/v1/me", 20, http.StatusMethodNotAllowed, openapi.CodeMethodNotAllowed},
		{"a missing scope", "properties_only", http.MethodGet, "/v1/properties/main/summary", 60, http.StatusForbidden, policy.CodeScope},
		{"a plan without access, which names no minute", "trial", http.MethodGet, "/v1/me", 60, http.StatusForbidden, policy.CodeNoAccess},
		{"a plan that ended", "lapsed", http.MethodGet, "/v1/me", 20, http.StatusForbidden, policy.CodeNoAccess},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *Config) { c.Admission.Plans = policy.DefaultPlans() })
			for range test.limit {
				w.ask(test.method, test.path, "Bearer "+w.keys[test.key]).want(t, test.status, test.code)
			}
			wait := time.Minute / time.Duration(test.limit)
			r := w.ask(test.method, test.path, "Bearer "+w.keys[test.key])
			w.want429(t, r, policy.CodeRateLimited, "requests a minute", test.limit, wait)
			w.wantHeaders(t, r)
			if test.key == "pro" {
				w.get("pro", "/v1/me").want(t, http.StatusTooManyRequests, policy.CodeRateLimited)
				w.ask(test.method, test.path).want(t, map[bool]int{true: 404, false: 405}[test.method == http.MethodGet], test.code)
				w.advance(wait)
				w.wantUsage(t, "pro", 1, 1, 0)
			}
		})
	}
}

func TestMe429Minute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerMinutePerKey = 20 }))
	var answers sync.Map
	var done sync.WaitGroup
	for i := range 200 {
		done.Go(func() {
			request, _ := http.NewRequest(http.MethodGet, w.base+"/v1/me", nil)
			request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
			answer, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Error(err)
				return
			}
			answers.Store(i, answer.StatusCode)
			_ = answer.Body.Close()
		})
	}
	done.Wait()
	count := map[any]int{}
	answers.Range(func(_, status any) bool { count[status]++; return true })
	if count[http.StatusOK] != 20 || count[http.StatusTooManyRequests] != 180 {
		t.Errorf("200 requests at once are answered %v, want 20 of them 200 and the others 429", count)
	}
	w.want429(t, w.get("pro", "/v1/me"), policy.CodeRateLimited, "the key's 20 requests a minute", 20, 3*time.Second)

	// Refused requests are not charged to the hour and the day; three seconds later one more request fits.
	w.advance(3 * time.Second)
	w.wantUsage(t, "pro", 21, 21, 0)
	w.get("pro", "/v1/me").want(t, http.StatusTooManyRequests, policy.CodeRateLimited)
}

func TestMe429Hour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerHour = 3 }))
	w.setClock("2026-11-21T20:59:00Z")
	for range 3 {
		w.get("pro", "/v1/me").ok(t)
	}
	w.want429(t, w.get("pro", "/v1/me"), policy.CodeRateLimited, "the account's 3 requests an hour", 3, time.Minute)
	w.advance(time.Minute)
	w.wantUsage(t, "pro", 1, 4, 0)
}

func TestMe429Day(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerDay, p.SearchConsoleCallsPerDay = 3, 2 }))
	w.setClock("2026-11-21T23:58:20Z")
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.get("pro", w.path("nope", "/summary")).want(t, http.StatusNotFound, policy.CodeNotFound)
	w.get("pro", w.path("main", "/summary"), "limit", "1").want(t, http.StatusBadRequest, codeUnsupported)
	w.want429(t, w.get("pro", "/v1/me"), policy.CodeQuotaExceeded, "the account's 3 requests a day", 3, 100*time.Second)

	// At midnight UTC the daily counts of requests and calls reset.
	w.advance(100 * time.Second)
	w.wantUsage(t, "pro", 1, 1, 0)
}

// A request over the live budget is refused, filtered or not, and counts as a request; one that needs two calls charges both or
// none.
func TestMovers429Calls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 2 }))
	w.get("pro", w.path("main", "/summary")).ok(t)
	before := w.sim.Calls().SearchAnalytics
	w.want429(t, w.get("pro", w.path("main", "/movers/queries")), policy.CodeQuotaExceeded,
		"the account's 2 live Search Console calls a day", 2, 4*time.Hour)
	if calls := w.sim.Calls().SearchAnalytics; calls != before {
		t.Errorf("%d calls were made for a request that did not fit", calls-before)
	}
	w.wantUsage(t, "pro", 3, 3, 1)
	w.get("pro", w.path("main", "/queries"), "filters", `[{"dimension":"country","operator":"is","value":"usa"}]`).ok(t)
	w.get("pro", w.path("main", "/queries"), "filters", `[{"dimension":"country","operator":"is","value":"deu"}]`).
		want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
	w.wantUsage(t, "pro", 6, 6, 2)
}

// A plan whose minute admits fewer calls than a request needs gets the answer too, one call after the other: a client that waits as
// told gets it after as many minutes, because the first call's rows stay.
func TestMovers429SmallPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.LiveCallsPerMinutePerProperty = 1 }))
	before := w.sim.Calls().SearchAnalytics
	for i, wait := range []time.Duration{0, 59 * time.Second} {
		w.advance(wait)
		w.want429(t, w.get("pro", w.path("main", "/movers/queries")), policy.CodeUpstreamQuota,
			"the property's 1 live Search Console call a minute is used up", 1, time.Minute-wait)
		if calls := w.sim.Calls().SearchAnalytics - before; calls != 1 {
			t.Errorf("%d calls were made by try %d, want 1", calls, i+1)
		}
	}
	w.advance(time.Second)
	w.get("pro", w.path("main", "/movers/queries")).ok(t)
	w.wantUsage(t, "pro", 4, 4, 2)
}

// A plan whose day admits fewer calls than a request needs spends none on it, however long the client waits.
func TestMovers429TooSmallPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 1 }))
	before := w.sim.Calls().SearchAnalytics
	for range 3 {
		w.get("pro", w.path("main", "/movers/queries")).want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
		w.advance(nextUTCMidnight(w.now()).Sub(w.now()))
	}
	if calls := w.sim.Calls().SearchAnalytics - before; calls != 0 {
		t.Errorf("%d calls were made for half an answer", calls)
	}
	w.get("pro", w.path("main", "/summary")).ok(t) // has the day's call
}

func TestSummary429Property(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.LiveCallsPerMinutePerProperty = 3 }))
	for _, endpoint := range []string{"/summary", "/queries", "/pages"} {
		w.get("pro", w.path("main", endpoint)).ok(t)
	}
	w.want429(t, w.get("pro", w.path("main", "/countries")), policy.CodeUpstreamQuota,
		"the property's 3 live Search Console calls a minute", 3, 20*time.Second)
	w.get("pro", w.path("prefix", "/summary")).ok(t)
	w.wantUsage(t, "pro", 6, 6, 4)
	w.advance(20 * time.Second)
	w.get("pro", w.path("main", "/countries")).ok(t)
}

// Refusals before the budgets are free: no route, no key, no plan, no scope.
func TestMe200NotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("agency", "/v1/nothing").want(t, http.StatusNotFound, policy.CodeNotFound)
	w.get("config_only", w.path("main", "/summary")).want(t, http.StatusForbidden, policy.CodeScope)
	w.get("trial", "/v1/me").want(t, http.StatusForbidden, policy.CodeNoAccess)
	w.get("expired", "/v1/me").want(t, http.StatusUnauthorized, policy.CodeExpiredKey)
	w.wantUsage(t, "agency", 1, 1, 0)
	w.wantUsage(t, "pro", 1, 1, 0)
	r := w.get("agency", "/v1/nothing")
	if limit, left := r.header.Get("X-RateLimit-Limit"), r.header.Get("X-RateLimit-Remaining"); limit != "100000" || left != "99999" {
		t.Errorf("a 404 shows %s of %s", left, limit)
	}
}

// The keys of an account share its hour and day limits, and have a minute limit each.
func TestMe200KeysOfAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		plan := c.Admission.Plans["agency"]
		plan.RequestsPerMinutePerKey = 1
		c.Admission.Plans["agency"] = plan
	})
	w.wantUsage(t, "agency", 1, 1, 0)
	w.wantUsage(t, "config_only", 2, 2, 0)
	w.get("agency", "/v1/me").want(t, http.StatusTooManyRequests, policy.CodeRateLimited)
	w.wantUsage(t, "indexing_only", 3, 3, 0)
	w.wantUsage(t, "pro", 1, 1, 0)
}

// guess returns an unknown key.
func guess() string {
	key, _ := policy.NewKey("sara")
	return key
}

// Guessing keys is limited by address; valid keys keep working, also those that come from there for the first time.
func TestMe429UnknownKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.TrustedProxyHeader = "X-Forwarded-For" })
	try := func(key, address string) response {
		request, err := http.NewRequest(http.MethodGet, w.base+"/v1/me", nil)
		w.must(err)
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header["X-Forwarded-For"] = []string{"203.0.113.1", "203.0.113.9, " + address} // the client's own entries come first
		return w.do(request)
	}
	const attacker, other = "198.51.100.7", "198.51.100.8"
	try(w.keys["pro"], attacker).ok(t)
	for range 30 {
		try(guess(), attacker).want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
		try("sara_live_NONSENSE", attacker).want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
	}
	known := guess()
	w.want429(t, try(known, attacker), policy.CodeRateLimited, "30 keys that are unknown", 30, 2*time.Second)
	try("sara_live_NONSENSE", attacker).want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
	try(w.keys["agency"], attacker).ok(t)
	try(w.keys["pro"], attacker).ok(t)
	try(guess(), other).want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
	w.must(w.store.Close())
	try(known, attacker).want(t, http.StatusTooManyRequests, policy.CodeRateLimited) // from the cache of unknown keys
}

// A chargeCounter counts the live calls that are charged and not refunded.
type chargeCounter struct {
	policy.Budget
	calls int
}

func (b *chargeCounter) ChargeLiveCalls(_, _ string, calls int, _ policy.Plan) *policy.Refusal {
	b.calls += calls
	return nil
}

func (b *chargeCounter) RefundLiveCalls(_ string, calls int, _ time.Time) { b.calls -= calls }

// A request is charged for all its calls with the first, as long as it waits for them. A fill that outlives it is charged for its own call
// only: the others may never be made, and would not be refunded.
func TestLiveCallsAreChargedTogether(t *testing.T) {
	budget := new(chargeCounter)
	grant := &policy.Grant{Key: new(policy.Key), Plan: policy.Plan{LiveCallsPerMinutePerProperty: 10}}
	r := liveCallReservation{gate: policy.NewGate(policy.Config{Budget: budget, Now: time.Now}), grant: grant, expected: 2}
	take := func(want int) {
		t.Helper()
		if err := r.Take(t.Context()); err != nil || budget.calls != want {
			t.Errorf("%d calls are charged, want %d (%v)", budget.calls, want, err)
		}
	}
	take(2)
	take(2)
	r.release()
	take(3)

	budget.calls, r.expected = 0, 2
	r.release()
	take(1)
}
