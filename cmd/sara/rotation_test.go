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
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
	"sara/policy/redistest"
)

// unlimitedPlans is a plan table whose limits no test reaches.
const unlimitedPlans = "plans: {pro: {api_access: true, keys: 3, requests_per_minute_per_key: 1000000, requests_per_hour: 1000000, " +
	"requests_per_day: 1000000, search_console_calls_per_day: 1000000, live_calls_per_minute_per_property: 1000000, retention_months: 36, " +
	"inspected_urls_per_property: 1}}\n"

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

func (r *route) get(path, key string) clitest.Answer {
	r.RLock()
	defer r.RUnlock()
	return clitest.Get(r.base+path, key)
}

func (r *route) change(base string) {
	r.Lock()
	defer r.Unlock()
	r.base = base
}

// replace starts new replicas with the settings of the command lines, each before the one that it replaces stops.
func (r *rotation) replace(c *clitest.CLI) {
	r.t.Helper()
	for i, before := range r.replicas {
		p, base, admin := serving(r.t, r.binary, c.Env)
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
		path := fmt.Sprintf("/v1/properties/shop/queries?start_date=%s&end_date=%s", start.Format(time.DateOnly),
			start.AddDate(0, 0, n/350).Format(time.DateOnly))
		if a := r.routes[n%2].get(path, key); a.Status != http.StatusOK || !strings.Contains(a.Body, `"source":"live"`) {
			r.t.Errorf("request %d: %d %v %.300s", n, a.Status, a.Err, a.Body)
			return n
		}
	}
}

// The secret key is changed by the steps of sara connection reseal --help while two replicas serve: no request fails. At the end
// the replicas do not have the former key.
func testSecretKeyRotation(t *testing.T, binary string, postgres *pgtest.Server) {
	people, simulator := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	c.Env = append(c.Env, "SARA_DATABASE_URL="+postgres.NewDatabase(t), "SARA_REDIS_URL="+redistest.Single(t).URL(), "SARA_REPLICAS=2",
		"SARA_LOG_LEVEL=warn", "SARA_ACCESS_LOG_SAMPLE=0", "SARA_PLANS_FILE="+c.Write("plans.yaml", unlimitedPlans))
	newKey := c.Customer()
	c.WithProperty()
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

	both := c.With("SARA_SECRET_KEY="+clitest.AnotherSecretKey, "SARA_SECRET_KEY_PREVIOUS="+clitest.SecretKey)
	r.replace(both)
	if report := both.OK("serve", "--check"); !strings.Contains(report, " is still needed, for 1 of the connections: run sara connection reseal") {
		t.Errorf("serve --check does not name the previous key:\n%s", report)
	}
	if said := both.OK("connection", "reseal"); !strings.Contains(said, "no connection needs the previous secret key ") {
		t.Errorf("reseal does not say that the previous key can go:\n%s", said)
	}
	after := c.With("SARA_SECRET_KEY=" + clitest.AnotherSecretKey)
	tokens := simulator.Calls().Tokens
	r.replace(after)
	clitest.Poll(t, "both replicas open the credentials", func() bool { return simulator.Calls().Tokens >= tokens+2 })
	stop()
	clients.Wait()
	for _, p := range r.replicas {
		p.stopped()
	}
	if n := requests.Load(); n < 20 {
		t.Errorf("only %d requests were sent", n)
	}
	c.Fails(command.ExitError, []string{"serve", "--check"}, `SARA_SECRET_KEY: connection "shop": the stored credentials are sealed with the secret key `)
}
