package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"sara/bench/internal/wire"
	"sara/bench/trace"
)

// A scenario is something that clients do to sara.
type scenario struct {
	name     string
	replica  int
	statuses []int          // that are expected; any other ends the run
	once     bool           // the trace is asked once, and measured, before the loops
	mix      map[string]int // percent of other scenarios; nil if it is none
	// prepare fills what has to be full; nil for nothing.
	prepare func(w *world, ctx context.Context, address string) error
	source  func(w *world) wire.Source
}

// scenarios are all that there are. The package's documentation says what each is for.
func scenarios() []scenario {
	ok := []int{http.StatusOK}
	return []scenario{
		{name: "agency", statuses: ok, once: true, source: (*world).agency},
		{name: "memory", statuses: ok, prepare: (*world).askHits, source: (*world).hits},
		{name: "redis", replica: forgetful, statuses: ok, prepare: (*world).fillRedis, source: (*world).shared},
		{name: "misses", statuses: ok, source: (*world).misses},
		{name: "stored", statuses: ok, prepare: (*world).archive, source: (*world).stored},
		{name: "hybrid", statuses: ok, prepare: (*world).archive, source: (*world).hybrid},
		{name: "movers", statuses: ok, prepare: (*world).askMovers, source: (*world).movers},
		{name: "denials", statuses: []int{http.StatusOK, http.StatusTooManyRequests}, source: (*world).denials},
		{name: "unknown", replica: edgeless, statuses: []int{http.StatusUnauthorized}, source: (*world).unknown},
		{name: "mix", statuses: []int{http.StatusOK, http.StatusTooManyRequests}, mix: mixWeights(),
			prepare: (*world).prepareMix, source: (*world).mixture},
	}
}

const (
	hitDays  = 28
	hitLimit = 62 // rows of an answer of 8 KB
)

// hitRequests are what every person asks of the same table of a property of the account: one question for each account.
func (w *world) hitRequests() [][]byte {
	var requests [][]byte
	for account := range w.trace.Accounts {
		for person := range w.trace.People {
			requests = append(requests, w.request(account, person, w.table(trace.Domain(account), "queries", hitDays-1, 0, hitLimit)))
		}
	}
	return requests
}

func (w *world) hits() wire.Source { return wire.Rotate(w.hitRequests()...) }

func (w *world) askHits(ctx context.Context, address string) error {
	return w.AskOnce(ctx, address, w.hitRequests()...)
}

// sharedQuestions are many more than a forgetful replica keeps, and than there are connections: each comes from Redis.
const sharedQuestions = 256

func (w *world) sharedRequests() [][]byte {
	var requests [][]byte
	for i := range sharedQuestions {
		account, back := i%w.trace.Accounts, 1+i/w.trace.Accounts
		path := w.table(trace.Domain(account), "queries", hitDays-1+back, back, hitLimit)
		requests = append(requests, w.request(account, 0, path))
	}
	return requests
}

func (w *world) shared() wire.Source { return wire.Rotate(w.sharedRequests()...) }

// fillRedis has the roomy replica ask the upstream.
func (w *world) fillRedis(ctx context.Context, _ string) error {
	address, err := w.address(roomy)
	if err != nil {
		return err
	}
	return w.AskOnce(ctx, address, w.sharedRequests()...)
}

// misses asks what nobody asked before: each filter names another word, which no query contains.
func (w *world) misses() wire.Source {
	return func(dst []byte, _ int64) []byte {
		n := w.fresh.Add(1)
		account := int(n) % w.trace.Accounts
		filter := `&filters=%5B%7B%22dimension%22%3A%22query%22%2C%22operator%22%3A%22not_contains%22%2C%22value%22%3A%22zzz` +
			strconv.FormatInt(n, 10) + `%22%7D%5D`
		return append(dst, w.request(account, 0, w.table(trace.Domain(account), "queries", 6, 0, hitLimit, filter))...)
	}
}

// The archived days, of the first property, counted back from the last day: the upstream has those of the last 16 months.
const (
	archivedFrom  = 1400
	archivedUntil = liveDays - 30
	liveDays      = 487 // 16 months, rounded up
	longestStored = 40
	ranges        = archivedFrom - liveDays - longestStored // of one length, that only the archive has
)

// archive imports the history that stored and hybrid ask for.
func (w *world) archive(ctx context.Context, _ string) error {
	if w.archived {
		return nil
	}
	w.archived = true
	random := mathrand.New(mathrand.NewPCG(1, 2))
	var text bytes.Buffer
	text.WriteString("date,dimension,key,clicks,impressions,position\n")
	for back := archivedFrom; back >= archivedUntil; back-- {
		row := func(dimension, key string, clicks int) {
			fmt.Fprintf(&text, "%s,%s,%s,%d,%d,%.1f\n", w.day(back), dimension, key, clicks, clicks*20, 1+random.Float64()*30)
		}
		row("total", "", 5000)
		for i := range 100 { // what the archive keeps of a day
			row("query", fmt.Sprintf("query %d of %d", random.IntN(4), i), 1+random.IntN(1000/(i+1)))
		}
	}
	return w.Stage.Archive(ctx, trace.Domain(0), text.Bytes())
}

// stored asks for days that only the archive has: one to six weeks of them, another range each time.
func (w *world) stored() wire.Source {
	return func(dst []byte, _ int64) []byte {
		n := int(w.fresh.Add(1))
		first, length := archivedFrom-n%ranges, 7+n/ranges%(longestStored-7)
		return append(dst, w.request(0, 0, w.table(trace.Domain(0), "queries", first, first-length+1, hitLimit))...)
	}
}

// hybrid asks for a range that begins in the archive, by up to five months, and ends with what is live. Another day to
// begin on and another limit each time make it another answer.
func (w *world) hybrid() wire.Source {
	const days, limits = 150, 100
	return func(dst []byte, _ int64) []byte {
		n := int(w.fresh.Add(1))
		return append(dst, w.request(0, 0, w.table(trace.Domain(0), "queries", liveDays+1+n%days, 0, 10+n/days%limits))...)
	}
}

// moverRequests are the movers of the hits' periods, lists of all lengths.
func (w *world) moverRequests() [][]byte {
	var requests [][]byte
	for limit := range 50 {
		account := limit % w.trace.Accounts
		requests = append(requests, w.request(account, 0, w.table(trace.Domain(account), "movers/queries", hitDays-1, 0, 1+limit)))
	}
	return requests
}

func (w *world) movers() wire.Source { return wire.Rotate(w.moverRequests()...) }

func (w *world) askMovers(ctx context.Context, address string) error {
	return w.AskOnce(ctx, address, w.moverRequests()...)
}

func (w *world) denials() wire.Source {
	return wire.Rotate(w.request(w.trace.Accounts, 0, w.table(stormDomain, "queries", hitDays-1, 0, hitLimit)))
}

// unknown guesses a key, from another address each time.
func (w *world) unknown() wire.Source {
	secret := rand.Text() + rand.Text()[:16]
	path := w.table(trace.Domain(0), "queries", hitDays-1, 0, hitLimit)
	return func(dst []byte, _ int64) []byte {
		n := w.fresh.Add(1)
		return append(dst, wire.Get(path, fmt.Sprintf("%s: 10.%d.%d.%d", addressHeader, n>>16&255, n>>8&255, n&255),
			fmt.Sprintf("Authorization: Bearer sara_live_%s%010d", secret, n))...)
	}
}

func (w *world) agency() wire.Source {
	var requests [][]byte
	for _, r := range trace.Generate(w.trace) {
		requests = append(requests, w.request(r.Account, r.Person, r.URL()))
	}
	return wire.Rotate(requests...)
}

// mixWeights say what the mix is of, in percent.
func mixWeights() map[string]int {
	return map[string]int{"memory": 70, "agency": 15, "movers": 5, "stored": 4, "denials": 4, "misses": 2}
}

// mixed are the scenarios of the mix.
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

// mixture draws each hundred requests by the weights, in an order that is random and always the same.
func (w *world) mixture() wire.Source {
	var order []wire.Source
	for _, s := range mixed() {
		order = append(order, slices.Repeat([]wire.Source{s.source(w)}, mixWeights()[s.name])...)
	}
	mathrand.New(mathrand.NewPCG(3, 4)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return func(dst []byte, n int64) []byte { return order[n%int64(len(order))](dst, n/int64(len(order))) }
}
