package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/archive/sqlstore/pgtest"
	"sara/policy/redistest"
)

const anotherKeyText = "YW5vdGhlci1rZXktb2YtdGhpcnR5LXR3by1ieXRlcyE="

// unlimitedPlans is a plan table whose limits no test reaches.
const unlimitedPlans = "plans: {pro: {api_access: true, keys: 3, requests_per_minute_per_key: 1000000, requests_per_hour: 1000000, requests_per_day: 1000000, " +
	"search_console_calls_per_day: 1000000, live_calls_per_minute_per_property: 1000000, retention_months: 36, inspected_urls_per_property: 1}}\n"

// with returns the same command lines with more variables.
func (c *cli) with(env ...string) *cli {
	other := *c
	other.env = append(c.env[:len(c.env):len(c.env)], env...)
	return &other
}

// rotation is two replicas behind a load balancer, which are replaced one after the other.
type rotation struct {
	t        *testing.T
	binary   string
	replicas [2]*process
	routes   [2]route
}

// A route is the address of a replica. A request holds its lock, so that none is on its way to a replica that stops.
type route struct {
	sync.RWMutex
	base string
}

func (r *route) get(path, key string) answer {
	r.RLock()
	defer r.RUnlock()
	return get(r.base+path, key)
}

func (r *route) change(base string) {
	r.Lock()
	defer r.Unlock()
	r.base = base
}

// replace starts new replicas with the settings of the command lines, each before the one that it replaces stops.
func (r *rotation) replace(c *cli) {
	r.t.Helper()
	for i, before := range r.replicas {
		p, base, admin := serving(r.t, r.binary, c.env)
		until(r.t, http.StatusOK, admin+"/readyz")
		r.replicas[i] = p
		r.routes[i].change(base)
		if before != nil {
			before.stopped()
		}
	}
}

// load sends a hundred requests a second until ctx ends, each of which asks Search Console, and returns how many there were.
func (r *rotation) load(ctx context.Context, key string) int {
	first := time.Now().AddDate(0, 0, -400)
	next := time.NewTicker(10 * time.Millisecond)
	defer next.Stop()
	for n := 0; ; n++ {
		select {
		case <-next.C:
		case <-ctx.Done():
			return n
		}
		start := first.AddDate(0, 0, n%350)
		path := fmt.Sprintf("/v1/properties/shop/queries?start_date=%s&end_date=%s", start.Format(time.DateOnly), start.AddDate(0, 0, n/350).Format(time.DateOnly))
		if a := r.routes[n%2].get(path, key); a.status != http.StatusOK || !strings.Contains(a.body, `"source":"live"`) {
			r.t.Errorf("request %d: %d %v %.300s", n, a.status, a.err, a.body)
			return n
		}
	}
}

// The secret key is changed by the steps of sara connection reseal --help while two replicas serve: no request fails. At the end
// the replicas do not have the former key.
func testSecretKeyRotation(t *testing.T, binary string, postgres *pgtest.Server) {
	people, simulator := simulate(t)
	c := newCLI(t).against(people)
	c.env = append(c.env, "SARA_DATABASE_URL="+postgres.NewDatabase(t), "SARA_REDIS_URL="+redistest.Single(t).URL(), "SARA_REPLICAS=2",
		"SARA_LOG_LEVEL=warn", "SARA_ACCESS_LOG_SAMPLE=0", "SARA_PLANS_FILE="+c.write("plans.yaml", unlimitedPlans))
	newKey := c.customer()
	c.withProperty()
	key, _ := newKey("load")

	r := &rotation{t: t, binary: binary}
	r.replace(c)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var requests atomic.Int64
	for range 2 {
		clients.Go(func() { requests.Add(int64(r.load(ctx, key))) })
	}

	both := c.with("SARA_SECRET_KEY="+anotherKeyText, "SARA_SECRET_KEY_PREVIOUS="+secretKeyText)
	r.replace(both)
	if report := both.ok("serve", "--check"); !strings.Contains(report, " is still needed, for 1 of the connections: run sara connection reseal") {
		t.Errorf("serve --check does not name the previous key:\n%s", report)
	}
	if said := both.ok("connection", "reseal"); !strings.Contains(said, "no connection needs the previous secret key ") {
		t.Errorf("reseal does not say that the previous key can go:\n%s", said)
	}
	after := c.with("SARA_SECRET_KEY=" + anotherKeyText)
	tokens := simulator.Calls().Tokens
	r.replace(after)
	poll(t, "both replicas open the credentials", func() bool { return simulator.Calls().Tokens >= tokens+2 })
	stop()
	clients.Wait()
	for _, p := range r.replicas {
		p.stopped()
	}
	if n := requests.Load(); n < 20 {
		t.Errorf("only %d requests were sent", n)
	}
	c.fails(exitError, []string{"serve", "--check"}, `SARA_SECRET_KEY: connection "shop": they are sealed with the secret key `)
}

func TestConnectionReseal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	people, _ := simulate(t)
	c := newCLI(t).against(people)
	c.customer()
	c.withProperty()
	both := c.with("SARA_SECRET_KEY="+anotherKeyText, "SARA_SECRET_KEY_PREVIOUS="+secretKeyText)
	for _, want := range []float64{1, 0} {
		result := both.object("resealed keys", "connection", "reseal")
		keys := result["keys"].([]any)
		current, previous := keys[0].(map[string]any), keys[1].(map[string]any)
		if result["resealed"] != want || current["role"] != "current" || current["connections"] != 1.0 || previous["role"] != "previous" || previous["connections"] != 0.0 {
			t.Errorf("resealed: %v", result)
		}
	}
	if _, report, _ := both.run("status"); !strings.Contains(strings.Join(strings.Fields(report), " "), "previous 0") {
		t.Errorf("the status does not show the previous key:\n%s", report)
	}
	c.with("SARA_SECRET_KEY=").fails(exitError, []string{"connection", "reseal"}, "SARA_SECRET_KEY: it is not set")
	c.with("SARA_SECRET_KEY=", "SARA_SECRET_KEY_PREVIOUS="+secretKeyText).fails(exitError, []string{"connection", "reseal"},
		"SARA_SECRET_KEY_PREVIOUS: previous keys only open what is stored: set SARA_SECRET_KEY to the current one")
}
