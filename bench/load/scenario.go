package main

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/report"
	"sara/bench/trace"
)

// A scenario is one kind of traffic.
type scenario struct {
	name     string
	replica  int
	statuses []int // expected; any other ends the run
	// once is how many requests are measured once, with cold caches, before the loops; nil for none. Without a loop, only this is set.
	once func(w *world) int
	only bool
	mix  map[string]int // percentages of other scenarios; nil if it is not a mix
	// connections is the number of connections of its only loop, a closed one; 0 for those of the plan.
	connections int
	// prepare fills caches and the archive; nil if there is nothing to do.
	prepare func(w *world, ctx context.Context, address string) error
	source  func(w *world) loadgen.Source
	// states measures the memory of a replica instead; nil for a scenario of requests.
	states func(w *world, ctx context.Context, note func(report.Footprint)) error
}

// scenarios returns all scenarios; the package doc describes them.
func scenarios() []scenario {
	ok := []int{http.StatusOK}
	return []scenario{
		{name: "agency", statuses: ok, once: (*world).wholeTrace, source: (*world).agency},
		{name: "memory", statuses: ok, prepare: (*world).askHits, source: (*world).hits},
		{name: "redis", replica: smallMemory, statuses: ok, prepare: (*world).fillRedis, source: (*world).shared},
		{name: "misses", statuses: ok, source: (*world).misses},
		{name: "narrow", statuses: ok, connections: 4, source: (*world).narrow},
		{name: "wide", statuses: ok, connections: 4, source: (*world).wide},
		{name: "stored", statuses: ok, prepare: (*world).archive, source: (*world).stored},
		{name: "hybrid", statuses: ok, prepare: (*world).archive, source: (*world).hybrid},
		{name: "year", statuses: ok, connections: 1, prepare: (*world).archiveYears, source: (*world).years},
		{name: "year-cold", replica: unread, statuses: ok, connections: 1, once: (*world).oneYearEach, only: true,
			prepare: (*world).prepareColdYears, source: (*world).coldYears},
		{name: "movers", statuses: ok, prepare: (*world).askMovers, source: (*world).movers},
		{name: "denials", statuses: []int{http.StatusOK, http.StatusTooManyRequests}, source: (*world).denials},
		{name: "unknown", replica: proxied, statuses: []int{http.StatusUnauthorized}, source: (*world).unknown},
		{name: "mix", statuses: []int{http.StatusOK, http.StatusTooManyRequests}, mix: mixWeights(),
			prepare: (*world).prepareMix, source: (*world).mixture},
		{name: "replica", states: (*world).footprints},
	}
}

const (
	hitDays  = 28
	hitLimit = 62 // rows, for an answer of 8 KB
)

// hitRequests are one table for each account, requested by each of its people.
func (w *world) hitRequests() []loadgen.Request {
	var requests []loadgen.Request
	for account := range w.trace.Accounts {
		for person := range w.trace.People {
			requests = append(requests, w.request(account, person, w.table(trace.Domain(account), "queries", hitDays-1, 0, hitLimit)))
		}
	}
	return requests
}

func (w *world) hits() loadgen.Source { return loadgen.Rotate(w.hitRequests()...) }

func (w *world) askHits(ctx context.Context, address string) error {
	return loadgen.Once(ctx, address, w.hitRequests()...)
}

// sharedTables is the number of tables in the redis scenario: more than there are connections, and far more than the roughly 70 that the
// replica with little memory keeps, so nearly all answers come from Redis. SIEVE keeps some in memory, although they are requested in turn.
const sharedTables = 1024

// sharedEnds is how many different last days an account's tables have: with more of them, some are shorter by a day.
const sharedEnds = sharedTables / 4

func (w *world) sharedRequests() []loadgen.Request {
	var requests []loadgen.Request
	for i := range sharedTables {
		account, n := i%w.trace.Accounts, i/w.trace.Accounts
		back, days := 1+n%sharedEnds, hitDays-n/sharedEnds
		path := w.table(trace.Domain(account), "queries", back+days-1, back, hitLimit)
		requests = append(requests, w.request(account, 0, path))
	}
	return requests
}

func (w *world) shared() loadgen.Source { return loadgen.Rotate(w.sharedRequests()...) }

// fillRedis requests the tables from the default replica, which writes them to Redis.
func (w *world) fillRedis(ctx context.Context, _ string) error {
	address, err := w.address(defaults)
	if err != nil {
		return err
	}
	return loadgen.Once(ctx, address, w.sharedRequests()...)
}

// without returns a filter that excludes the queries with the n-th word; there are none.
func without(n int64) string {
	return `&filters=%5B%7B%22dimension%22%3A%22query%22%2C%22operator%22%3A%22not_contains%22%2C%22value%22%3A%22` + excludedWord +
		strconv.FormatInt(n, 10) + `%22%7D%5D`
}

// misses filters by a new word in each request.
func (w *world) misses() loadgen.Source {
	return func(int64) loadgen.Request {
		n := w.fresh.Add(1)
		account := int(n) % w.trace.Accounts
		return w.request(account, 0, w.table(trace.Domain(account), "queries", 6, 0, hitLimit, without(n)))
	}
}

// narrow and wide are misses whose upstream samples are full.
func (w *world) narrow() loadgen.Source { return w.missesOf(narrowDomain, "") }
func (w *world) wide() loadgen.Source   { return w.missesOf(wideDomain, "&order_by=-impressions") }

func (w *world) missesOf(domain, order string) loadgen.Source {
	return func(int64) loadgen.Request {
		return w.request(0, 0, w.table(domain, "queries", hitDays-1, 0, hitLimit, order, without(w.fresh.Add(1))))
	}
}

// moverRequests are movers over the period of the memory hits, with limits of 1 to 50.
func (w *world) moverRequests() []loadgen.Request {
	var requests []loadgen.Request
	for limit := range 50 {
		account := limit % w.trace.Accounts
		requests = append(requests, w.request(account, 0, w.table(trace.Domain(account), "movers/queries", hitDays-1, 0, 1+limit)))
	}
	return requests
}

func (w *world) movers() loadgen.Source { return loadgen.Rotate(w.moverRequests()...) }

func (w *world) askMovers(ctx context.Context, address string) error {
	return loadgen.Once(ctx, address, w.moverRequests()...)
}

func (w *world) denials() loadgen.Source {
	return loadgen.Rotate(w.request(w.trace.Accounts, 0, w.table(limitedDomain, "queries", hitDays-1, 0, hitLimit)))
}

// unknown sends a new invalid key from a new address each time.
func (w *world) unknown() loadgen.Source {
	secret := rand.Text() + rand.Text()[:16]
	path := w.table(trace.Domain(0), "queries", hitDays-1, 0, hitLimit)
	base32 := strings.NewReplacer("0", "A", "1", "B", "8", "I", "9", "J") // a key in another format is refused without a look-up
	return func(int64) loadgen.Request {
		n := w.fresh.Add(1)
		return loadgen.Get(path, addressHeader, fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255),
			"Authorization", "Bearer sara_live_"+secret+base32.Replace(fmt.Sprintf("%010d", n)))
	}
}

func (w *world) wholeTrace() int { return w.trace.Requests }

func (w *world) agency() loadgen.Source {
	var requests []loadgen.Request
	for _, r := range trace.Generate(w.trace) {
		requests = append(requests, w.request(r.Account, r.Person, r.URL()))
	}
	return loadgen.Rotate(requests...)
}

// mixWeights returns the percentages of the mix.
func mixWeights() map[string]int {
	return map[string]int{"memory": 70, "agency": 15, "movers": 5, "stored": 4, "denials": 4, "misses": 2}
}

// mixed returns the scenarios of the mix.
func mixed() []scenario {
	return slices.DeleteFunc(scenarios(), func(s scenario) bool { return mixWeights()[s.name] == 0 })
}

func (w *world) prepareMix(ctx context.Context, address string) error {
	for _, s := range mixed() {
		if s.prepare == nil {
			continue
		}
		if err := s.prepare(w, ctx, address); err != nil {
			return err
		}
	}
	return nil
}

// mixture sends the requests of the mixed scenarios by their weights.
func (w *world) mixture() loadgen.Source {
	var parts []part
	for _, s := range mixed() {
		parts = append(parts, part{s.source(w), mixWeights()[s.name]})
	}
	return blend(parts)
}

// A part is a source with the number of its requests in each round of a blend.
type part struct {
	source loadgen.Source
	weight int
}

// blend takes requests from each part in proportion to its weight, in a random order that is the same in every round and every run. Each
// part sends all of its requests equally often.
func blend(parts []part) loadgen.Source {
	type turn struct {
		part
		nth int // of the part in a round
	}
	var round []turn
	for _, p := range parts {
		for nth := range p.weight {
			round = append(round, turn{p, nth})
		}
	}
	mathrand.New(mathrand.NewPCG(3, 4)).Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
	return func(n int64) loadgen.Request {
		rounds, t := n/int64(len(round)), round[n%int64(len(round))]
		return t.source(rounds*int64(t.weight) + int64(t.nth))
	}
}
