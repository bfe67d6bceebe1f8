package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sara/bench/internal/cgroup"
	"sara/bench/internal/procstat"
	"sara/bench/internal/testbed"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/proxy/upstream/gscsim"
)

// A world is a testbed with the accounts of all trials. It belongs to one goroutine, except for its requests.
type world struct {
	*testbed.Testbed
	options
	upstream *upstream
	counters redisconn.Client // of the testbed's Redis
	http     *http.Client     // for metrics
	lastDay  time.Time        // final in every time zone, even if the day changes during the run
	fresh    atomic.Int64     // numbers questions that must differ from all earlier ones
	unbound  error            // why there are no cgroups; nil if there are
	asker    string           // this program, for the quiet tenants
	yields   bool             // the abuser and the simulator have a scheduling policy that everything else preempts

	// The accounts, by their numbers in Keys.
	tenants, spenders, offices, counted []int
	flooder, failing, probing, lapsed   int
	silent                              int
	steady                              int // of the mix
	accounts                            []testbed.Account
	small                               []*testbed.Redis // of the current trial
}

const (
	pro         = "pro"
	noPlan      = "none"
	hundred     = "hundred" // 100 requests a day, and no other limit that matters
	hundredADay = 100
	steady      = "steady" // the same, with size.steadyADay requests a day
)

// add adds an account, and returns its number.
func (w *world) add(a testbed.Account) int {
	w.accounts = append(w.accounts, a)
	return len(w.accounts) - 1
}

// populate describes the accounts.
func (w *world) populate() {
	site := func(name string, i int) testbed.Property {
		return testbed.Property{Domain: fmt.Sprintf("%s%d.example", name, i)}
	}
	for i := range w.size.tenants {
		// The second property has the rows that fill the cache.
		w.tenants = append(w.tenants, w.add(testbed.Account{People: 1, Properties: []testbed.Property{site("quiet", i), site(floodSite, 1+i)}}))
	}
	for i := range w.size.spenders {
		spender := testbed.Account{People: 1, Plan: pro}
		for j := range sitesOfSpender {
			spender.Properties = append(spender.Properties, site(bigSite, i*sitesOfSpender+j))
		}
		w.spenders = append(w.spenders, w.add(spender))
	}
	for i := range w.size.offices {
		w.offices = append(w.offices, w.add(testbed.Account{People: w.desks, Properties: []testbed.Property{site("office", i)}}))
	}
	w.flooder = w.add(testbed.Account{People: 1, Properties: []testbed.Property{site(floodSite, 0)}})
	w.silent = w.add(testbed.Account{People: 1, Properties: []testbed.Property{site(bigSite, w.size.spenders*sitesOfSpender)}})
	const floods = 2 // trials that each use up a day in every round
	for i := range floods * max(1, w.rounds) {
		w.counted = append(w.counted, w.add(testbed.Account{People: 1, Plan: hundred, Properties: []testbed.Property{site("counted", i)}}))
	}
	w.steady = w.add(testbed.Account{People: 1, Plan: steady, Properties: []testbed.Property{site("steady", 0)}})
	const proKeys, failingSites = 3, 4
	failing := testbed.Account{People: proKeys, Plan: pro}
	for i := range failingSites {
		failing.Properties = append(failing.Properties, site(failingSite, i))
	}
	w.failing = w.add(failing)
	w.probing = w.add(testbed.Account{People: 2, Plan: pro, Properties: []testbed.Property{site("probing", 0)}})
	w.lapsed = w.add(testbed.Account{People: 1, Plan: noPlan, Properties: []testbed.Property{site("lapsed", 0)}})
}

func (s size) plans() policy.Plans {
	plans := policy.DefaultPlans()
	limited := policy.Plan{APIAccess: true, Keys: 1, RequestsPerMinutePerKey: testbed.Raised, RequestsPerHour: testbed.Raised,
		RequestsPerDay: hundredADay, SearchConsoleCallsPerDay: testbed.Raised, LiveCallsPerMinutePerProperty: testbed.Raised,
		RetentionMonths: 16, InspectedURLsPerProperty: 1}
	plans[hundred] = limited
	limited.RequestsPerDay = s.steadyADay
	plans[steady] = limited
	lapsed := plans[noPlan]
	lapsed.Keys = 1 // an account keeps its keys when its plan ends
	plans[noPlan] = lapsed
	return plans
}

func newWorld(ctx context.Context, o options) (_ *world, err error) {
	w := &world{options: o, lastDay: time.Now().UTC().AddDate(0, 0, -4), http: &http.Client{Timeout: time.Minute}}
	w.populate()
	if w.asker, err = os.Executable(); err != nil {
		return nil, err
	}
	if w.timed {
		if w.yields, err = yieldProcessors(); err != nil {
			return nil, err
		}
	}
	if group, err := cgroup.New(o.memory); err != nil {
		w.unbound = err
	} else if err := group.Remove(); err != nil {
		return nil, err
	}
	w.upstream = newUpstream(o.size)
	w.Testbed, err = testbed.Start(ctx, testbed.Config{Binary: o.binary, Accounts: w.accounts, Plans: o.plans(), Postgres: o.postgres, Redis: true,
		Usual: w.yields, Site: gscsim.Site{Queries: 60, Pages: 30}, Upstream: w.upstream.before})
	if err != nil {
		return nil, err
	}
	if w.counters, err = openRedis(w.Redis); err != nil {
		return nil, errors.Join(err, w.Testbed.Close())
	}
	return w, nil
}

// Close stops everything.
func (w *world) Close() error {
	w.http.CloseIdleConnections()
	return errors.Join(w.counters.Close(), w.Testbed.Close())
}

// say prints the setup of the trials.
func (w *world) say(out io.Writer) {
	database := "SQLite"
	if w.postgres {
		database = "PostgreSQL"
	}
	bound := fmt.Sprintf("sara in a memory cgroup of %d MiB without swap", w.memory>>20)
	if w.unbound != nil {
		bound = fmt.Sprintf("sara without a memory cgroup (%s): its peak of resident memory must stay below %d MiB",
			strings.ReplaceAll(w.unbound.Error(), "\n", ": "), w.memory>>20)
	}
	priority := "the abuser and the simulator use processors that are idle"
	if !w.yields {
		priority = "the abuser and the simulator compete with sara for the processors"
	}
	_, _ = fmt.Fprintf(out, "%s, Redis, %s; %s\n\n", bound, database, priority)
}

const cacheBytes = 256 << 20

// start starts a replica as shipped, with further settings.
func (w *world) start(env ...string) (*testbed.Replica, error) {
	c := testbed.ReplicaConfig{Env: append([]string{"GOMEMLIMIT=640MiB", fmt.Sprintf("SARA_CACHE_BYTES=%d", cacheBytes)}, env...)}
	if w.unbound == nil {
		c.Memory = w.memory
	}
	return w.StartReplica(c)
}

// peak returns the most memory that a replica has used, and how often the kernel has killed it for that.
func (w *world) peak(r *testbed.Replica) (bytes, kills int64, err error) {
	if r.Group == nil {
		bytes, err = procstat.PeakResident(r.PID)
		return bytes, 0, err
	}
	bytes, peakErr := r.Group.Peak()
	kills, err = r.Group.Kills()
	return bytes, kills, errors.Join(peakErr, err)
}

// hasEnded reports whether a replica has ended.
func hasEnded(r *testbed.Replica) bool {
	select {
	case <-r.Ended:
		return true
	default:
		return false
	}
}

// stop stops a replica, and returns its peak of memory and how it failed.
func (w *world) stop(r *testbed.Replica) (peak int64, problems []string, err error) {
	dead := hasEnded(r)
	peak, kills, err := w.peak(r)
	if err != nil && !dead { // without a cgroup, nothing can be read about a process that has ended
		return 0, nil, err
	}
	ended, err := w.StopReplica(r)
	switch {
	case kills > 0:
		problems = append(problems, "killed for memory")
	case dead:
		problems = append(problems, fmt.Sprintf("sara has ended: %v", ended))
	case ended != nil:
		problems = append(problems, fmt.Sprintf("sara did not stop as it should: %v", ended))
	case peak > w.memory:
		problems = append(problems, fmt.Sprintf("%d MiB of memory", peak>>20))
	}
	return peak, problems, err
}

// metrics returns the metrics of a replica.
func (w *world) metrics(ctx context.Context, r *testbed.Replica) (map[string]float64, error) {
	return procstat.ReadMetrics(ctx, w.http, r.AdminURL+"/metrics")
}

// days returns a range of days that no earlier question had, while there are any, then the oldest again.
func (w *world) days() string {
	const lengths, ends = 28, 400
	n := int(w.fresh.Add(1))
	end := w.lastDay.AddDate(0, 0, -(n / lengths % ends))
	return "start_date=" + end.AddDate(0, 0, -(n%lengths)).Format(time.DateOnly) + "&end_date=" + end.Format(time.DateOnly)
}

// get returns a request with a key. Headers are names and values in turn.
func get(path, key string, headers ...string) *fasthttp.Request {
	request := new(fasthttp.Request)
	request.URI().DisablePathNormalizing = true
	request.SetRequestURI("http://sara.example" + path)
	request.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// property returns the path of an account's n-th property.
func (w *world) property(account, n int) string {
	return "/v1/properties/" + w.accounts[account].Properties[n].Domain
}

// cold returns a question about a property that no earlier question has answered.
func (w *world) cold(account, property int) string {
	return coldQuestion(w.property(account, property), fmt.Sprint("zzz", w.fresh.Add(1)))
}

// coldQuestion asks for a property's queries that do not contain a given word.
func coldQuestion(property, without string) string {
	return property + "/queries?filters=" + url.QueryEscape(`[{"dimension":"query","operator":"not_contains","value":"`+without+`"}]`)
}
