package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sara/bench/internal/balancer"
	"sara/bench/internal/testbed"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/proxy/upstream/gscsim"
)

const (
	replicas     = 3
	domain       = "known.example"
	archivedDays = 540 // two months more than Search Console has
	counted      = "counted"
	countedADay  = 150
	redisTimeout = 5 * time.Second // of each step of the bench itself
)

// A world is three replicas on PostgreSQL, Redis and an S3 store, behind a balancer.
type world struct {
	*testbed.Testbed
	options
	pooled   bool // the replicas reach PostgreSQL through PgBouncer
	upstream *upstream
	balancer *balancer.Balancer
	counters redisconn.Client
	client   *http.Client
	running  []*testbed.Replica
	lastDay  time.Time

	jobs      sync.WaitGroup // of faults
	held      []net.Conn     // that take up a replica's descriptors
	offset    time.Duration  // of the clocks of replicas that are started
	failed    *testbed.Redis // of a group
	settled   time.Time      // all replicas count all others from then on
	throttled chan struct{}  // closed to end the throttling of PostgreSQL; nil: there is none
	torn      string         // the object that is torn, and its bytes
	whole     []byte
}

// An upstream stands in front of the simulator.
type upstream struct {
	simulator http.Handler
	hang      atomic.Bool
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.hang.Load() && strings.HasPrefix(r.URL.Path, "/webmasters/") {
		const longest = time.Minute
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client left
		select {
		case <-r.Context().Done():
		case <-time.After(longest):
		}
		panic(http.ErrAbortHandler)
	}
	u.simulator.ServeHTTP(w, r)
}

// newWorld starts a world with enough accounts for the days that are counted.
func newWorld(ctx context.Context, o options, s setup, days int) (_ *world, err error) {
	w := &world{options: o, pooled: s.pooler, upstream: &upstream{}, balancer: balancer.Start(), lastDay: time.Now().UTC().AddDate(0, 0, -10),
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	// The first account asks known questions. The day of each other one is counted.
	accounts := []testbed.Account{{People: 1, Properties: []testbed.Property{{Domain: domain}}}}
	for range days {
		accounts = append(accounts, testbed.Account{People: 1, Plan: counted})
	}
	plans := policy.DefaultPlans()
	plans[counted] = policy.Plan{APIAccess: true, Keys: 1, RequestsPerMinutePerKey: testbed.Raised, RequestsPerHour: testbed.Raised,
		RequestsPerDay: countedADay, SearchConsoleCallsPerDay: 1, LiveCallsPerMinutePerProperty: 1, RetentionMonths: 16, InspectedURLsPerProperty: 1}
	w.Testbed, err = testbed.Start(ctx, testbed.Config{Binary: o.binary, Accounts: accounts, Plans: plans,
		Postgres: true, S3: true, Redis: true, Group: s.group, Pooler: s.pooler,
		RedisArgs: []string{"--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"}, Log: o.log,
		Site:     gscsim.Site{Queries: 60, Pages: 30},
		Upstream: func(simulator http.Handler) http.Handler { w.upstream.simulator = simulator; return w.upstream }})
	if err != nil {
		w.balancer.Close()
		return nil, err
	}
	if w.counters, err = redisconn.Open("redis://"+w.Redis.Address, redisTimeout); err != nil {
		w.balancer.Close()
		return nil, errors.Join(err, w.Testbed.Close())
	}
	if err := w.begin(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// begin fills the archive and starts the replicas.
func (w *world) begin(ctx context.Context) error {
	if err := w.Archive(ctx, domain, w.history()); err != nil {
		return err
	}
	for range replicas {
		r, err := w.startReplica()
		if err != nil {
			return err
		}
		w.running = append(w.running, r)
	}
	w.balance()
	return w.warm(ctx)
}

// archived returns the nth archived day from the end.
func (w *world) archived(n int) time.Time { return w.lastDay.AddDate(0, 0, 7-n) }

// history returns archived totals, as CSV.
func (w *world) history() []byte {
	var csv bytes.Buffer
	csv.WriteString("date,dimension,key,clicks,impressions,position\n")
	for i := archivedDays; i >= 0; i-- {
		day := w.archived(i).Format(time.DateOnly)
		_, _ = fmt.Fprintf(&csv, "%s,total,,%d,%d,3\n%s,query,shoes,%d,%d,3\n", day, 5+i%7, 100+i, day, 5+i%7, 100+i) // never fails
	}
	return csv.Bytes()
}

// background runs a part of a fault until it ends by itself.
func (w *world) background(job func() error) {
	w.jobs.Go(func() { _ = job() }) // the connection may be ended by another fault
}

// Close stops everything. The replicas are killed: nothing that they would drain matters any more.
func (w *world) Close() error {
	w.jobs.Wait()
	for _, r := range w.running {
		_ = syscall.Kill(r.PID, syscall.SIGKILL) // it may have ended
		_, _ = w.StopReplica(r)                  // it was killed
	}
	w.balancer.Close()
	w.client.CloseIdleConnections()
	return errors.Join(w.counters.Close(), w.Testbed.Close())
}

// An answer is what the balancer answered.
type answer struct {
	status int // 0: no answer
	body   string
	took   time.Duration

	replica string // that gave it
}

// code describes an answer that is not a success.
func (a answer) code() string {
	if a.status == 0 {
		return "no answer"
	}
	if _, rest, ok := strings.Cut(a.body, `"code":"`); ok {
		code, _, _ := strings.Cut(rest, `"`)
		return fmt.Sprintf("%d %s", a.status, code)
	}
	return fmt.Sprintf("%d %.40s", a.status, strings.TrimSpace(a.body))
}

// ask sends one question through the balancer.
func (w *world) ask(ctx context.Context, account int, path string, patience time.Duration) answer {
	begun := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.balancer.URL+path, nil)
	if err != nil {
		return answer{body: err.Error()}
	}
	request.Header.Set("Authorization", "Bearer "+w.Keys[account][0])
	if patience > 0 {
		request.Header.Set("X-Patience", patience.String())
	}
	response, err := w.client.Do(request)
	if err != nil {
		return answer{body: err.Error(), took: time.Since(begun)}
	}
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if closed := response.Body.Close(); err != nil || closed != nil {
		return answer{body: errors.Join(err, closed).Error(), took: time.Since(begun)}
	}
	return answer{status: response.StatusCode, body: string(body), took: time.Since(begun), replica: response.Header.Get(balancer.Answered)}
}

// known returns the known questions.
func (w *world) known() []string {
	days := "?start_date=" + w.lastDay.AddDate(0, 0, -27).Format(time.DateOnly) + "&end_date=" + w.lastDay.Format(time.DateOnly)
	property := "/v1/properties/" + domain
	return []string{"/v1/me", property + "/summary" + days, property + "/queries" + days, property + "/timeseries" + days}
}

// warm asks all known questions of each replica until it knows them.
func (w *world) warm(ctx context.Context) error {
	for _, path := range w.known() {
		for range 2 * replicas {
			if a := w.ask(ctx, 0, path, 20*time.Second); a.status != http.StatusOK {
				return fmt.Errorf("warm up: GET %s: %s", path, a.code())
			}
		}
	}
	return nil
}
