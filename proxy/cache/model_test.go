package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sara/policy/redistest"
	"sara/translate"
)

// modelEntry is an entry of the model.
type modelEntry struct {
	key    string
	query  translate.Query
	filled time.Time
	rows   int
}

// model is a naive implementation of Do for two replicas: what each has in memory, and what is in Redis.
type model struct {
	memory  [2]map[string]*modelEntry
	held    [2]map[*modelEntry]int // how many of its first rows memory has
	shared  map[string]*modelEntry // nil without Redis
	failing [2]map[*modelEntry]bool
	fills   int64
}

func newModel(withRedis bool) *model {
	m := &model{}
	if withRedis {
		m.shared = map[string]*modelEntry{}
	}
	for i := range m.memory {
		m.memory[i], m.held[i], m.failing[i] = map[string]*modelEntry{}, map[*modelEntry]int{}, map[*modelEntry]bool{}
	}
	return m
}

// newest returns the newest entry that answers a query, its own before its sibling's if they are equally old.
func newest(copies map[string]*modelEntry, property string, q translate.Query) (best *modelEntry) {
	candidates := []translate.Query{q}
	if sibling, ok := q.Sibling(); ok {
		candidates = append(candidates, sibling)
	}
	for _, candidate := range candidates {
		c := copies[string(appendKey(nil, property, &candidate))]
		if c != nil && q.AnsweredBy(candidate, c.rows) && (best == nil || c.filled.After(best.filled)) {
			best = c
		}
	}
	return best
}

// modelResult is what Do should return.
type modelResult struct {
	entry  *modelEntry
	status Status
	stale  bool
	err    error
}

// do is Do of replica n. A fill returns a number of rows, or err.
func (m *model) do(n int, now time.Time, r Request, rows int, err error) modelResult {
	property, q := r.PropertyID, r.Query
	asResult := func(c *modelEntry, status Status) modelResult {
		if c == nil || now.Sub(c.filled) >= MaxStale {
			return modelResult{}
		}
		return modelResult{entry: c, status: status, stale: now.Sub(c.filled) >= ttl}
	}
	lookUp := func(has modelResult) modelResult {
		c := newest(m.shared, property, q)
		if c == nil || has.entry != nil && !c.filled.After(has.entry.filled) {
			return has
		}
		m.put(n, c, [...]int{c.rows, 100, translate.NarrowSample}[translate.Groups(r.FirstRows)])
		return asResult(c, HitShared)
	}
	fill := func() modelResult {
		m.fills++
		if err != nil {
			return modelResult{err: err}
		}
		c := &modelEntry{key: string(appendKey(nil, property, &q)), query: q, filled: now, rows: rows}
		m.put(n, c, rows)
		if m.shared != nil {
			m.shared[c.key] = c
		}
		return modelResult{entry: c, status: Filled}
	}
	kept := newest(m.memory[n], property, q)
	if kept != nil && m.held[n][kept] < kept.rows && (r.FirstRows == 0 || m.held[n][kept] < r.FirstRows) {
		kept = nil
	}
	result := asResult(kept, HitMemory)
	if !r.Bypass {
		if result.entry != nil && !result.stale {
			return result
		}
		if result = lookUp(result); result.entry != nil && !result.stale {
			return result
		}
	}
	filled := fill()
	waits := r.Bypass || r.Current || result.entry == nil || m.failing[n][result.entry]
	if errors.Is(err, errUpstream) && result.entry != nil && !r.Bypass {
		m.failing[n][result.entry] = true
	}
	switch {
	case !waits:
		return result
	case err == nil:
		return filled
	case r.Bypass:
		result = lookUp(result)
	}
	result.err = err
	return result
}

func (m *model) put(n int, c *modelEntry, held int) {
	m.held[n][c] = max(m.held[n][c], min(held, c.rows))
	if old := m.memory[n][c.key]; old == nil || !old.filled.After(c.filled) {
		m.memory[n][c.key] = c
	}
}

func TestDoEqualsModel(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("alone, seed ", seed), func(t *testing.T) {
			clock := newClock()
			compareWithModel(t, seed, newModel(false), clock, newReplica(t, nil, clock), newReplica(t, nil, clock))
		})
	}
	server := redistest.Single(t)
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("with Redis, seed ", seed), func(t *testing.T) {
			clock := newClock()
			compareWithModel(t, seed, newModel(true), clock, newReplica(t, server.Client(), clock), newReplica(t, server.Client(), clock))
		})
	}
}

// compareWithModel runs the same random requests on two replicas and on the model, and compares the results.
func compareWithModel(t *testing.T, seed uint64, m *model, clock *clock, replicas ...*replica) {
	random := rand.New(rand.NewPCG(seed, 1))
	series := narrow("a")
	series.Dimension, series.RowLimit = translate.ByDate, translate.WideSample
	queries := []translate.Query{narrow("a"), wide("a"), narrow("b"), series}
	sizes := []int{3, translate.NarrowSample, 1500}
	samples := map[int]*translate.Rows{}
	for _, size := range sizes {
		samples[size] = rowsOf(t, size)
	}
	upstream := answering(nil)
	var history []string
	for range 120 {
		clock.advance(time.Duration(random.Int64N(int64(ttl) * 2 / 3)))
		if random.IntN(40) == 0 {
			clock.advance(MaxStale - ttl)
		}
		n, property, query := random.IntN(2), fmt.Sprint(t.Name(), random.IntN(2)), queries[random.IntN(len(queries))]
		rows := min(sizes[random.IntN(len(sizes))], query.RowLimit)
		err := []error{nil, nil, nil, errUpstream, errBudget}[random.IntN(5)]
		upstream.fill = func(context.Context, int64) (*translate.Rows, error) {
			if err != nil {
				return nil, err
			}
			return samples[rows], nil
		}
		q := upstream.request(property, query)
		q.Bypass, q.Current = random.IntN(8) == 0, random.IntN(4) == 0
		reserved := 0
		q.Reserve = func(context.Context) (func(), error) { reserved++; return func() { reserved-- }, nil }
		q.FirstRows = []int{0, 10, 500, 1200}[random.IntN(4)]
		if m.shared != nil && random.IntN(8) == 0 { // Redis loses a copy
			lost := candidateOfRequest(q)
			replicas[n].redis.client.Del(t.Context(), lost.redisKey)
			delete(m.shared, lost.key)
			history = append(history, fmt.Sprintf("Redis loses %v rows of %s of %s", query.RowLimit, query.Site, property))
		}
		history = append(history,
			fmt.Sprintf("%v replica %d requests %s: %v rows of %s, bypass %v, current %v, first %d; the upstream has %d rows, error %v",
				clock.Now().UTC().Format(time.TimeOnly), n, property, query.RowLimit, query.Site, q.Bypass, q.Current, q.FirstRows, rows, err))
		want := m.do(n, clock.Now(), q, rows, err)
		asked := random.IntN(2) == 0 // otherwise Do loads the entry from Redis
		has := asked && replicas[n].Has(t.Context(), q)
		got, gotErr := replicas[n].Do(t.Context(), q)
		replicas[n].settle()
		if reserved != 0 {
			t.Errorf("%d reservations were not given back", reserved)
		}
		if events := replicas[n].redis; events != nil && len(events.events.waiting) > 0 {
			t.Errorf("the events of %d keys are still expected", len(events.events.waiting))
		}
		if asked && has != (!q.Bypass && want.err == nil && want.status != Filled) {
			t.Errorf("Has is %v before %+v", has, want)
		}
		compare(t, got, gotErr, want)
		if got.Entry != nil && (!got.Entry.Rows().HasFirst(q.FirstRows) || q.FirstRows == 0 && !sameRows(t, got.Entry.Rows(), samples[want.entry.rows])) {
			t.Error("rows are missing")
		}
		upstream.want(t, m.fills)
		if t.Failed() {
			t.Fatalf("after:\n%s", strings.Join(history[max(0, len(history)-12):], "\n"))
		}
	}
}

func candidateOfRequest(r Request) candidate {
	c, _ := candidateOf(r.PropertyID, &r.Query, "")
	return c
}

func compare(t *testing.T, got Found, err error, want modelResult) {
	t.Helper()
	if !errors.Is(err, want.err) || err != nil && want.err == nil {
		t.Errorf("failed with %v, want %v", err, want.err)
	}
	if got.Entry == nil || want.entry == nil {
		if got.Entry != nil || want.entry != nil {
			t.Errorf("found %+v, want %+v", got, want)
		}
		return
	}
	// If Has is called first, it loads the entry from Redis into memory.
	status := want.status
	if status == HitShared {
		status = HitMemory
	}
	if got.Status != status && got.Status != want.status || got.Stale != want.stale {
		t.Errorf("found %v, stale %v, want %v, stale %v", got.Status, got.Stale, status, want.stale)
	}
	if !got.Entry.filled.Equal(want.entry.filled) || got.Entry.key != want.entry.key || got.Entry.Rows().Len() != want.entry.rows {
		t.Errorf("found %d rows of %v under %s, want %+v", got.Entry.Rows().Len(), got.Entry.filled, got.Entry.key, want.entry)
	}
}
