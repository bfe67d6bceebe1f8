package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
	"sara/translate"
)

// modelCopy is a copy as the model knows it.
type modelCopy struct {
	key    string
	query  translate.Query
	filled time.Time
	rows   int
}

// model is the walk in plain words: what two replicas have in memory, and what they share.
type model struct {
	memory  [2]map[string]*modelCopy
	shared  map[string]*modelCopy // nil without Redis
	failing [2]map[*modelCopy]bool
	fills   int64
}

func newModel(withRedis bool) *model {
	m := &model{}
	if withRedis {
		m.shared = map[string]*modelCopy{}
	}
	for i := range m.memory {
		m.memory[i], m.failing[i] = map[string]*modelCopy{}, map[*modelCopy]bool{}
	}
	return m
}

// freshest returns the best copy for a question, its own before its sibling's when they are as old.
func freshest(copies map[string]*modelCopy, property string, q translate.Query) (best *modelCopy) {
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

// modelResult is what Do has to return.
type modelResult struct {
	copy  *modelCopy
	how   Status
	stale bool
	err   error
}

// do asks replica n, where a fill returns so many rows or err.
func (m *model) do(n int, now time.Time, property string, q translate.Query, bypass bool, rows int, err error) modelResult {
	stand := func(c *modelCopy, how Status) modelResult {
		if c == nil || now.Sub(c.filled) >= maxStale {
			return modelResult{}
		}
		return modelResult{copy: c, how: how, stale: now.Sub(c.filled) >= life}
	}
	lookUp := func(has modelResult) modelResult {
		c := freshest(m.shared, property, q)
		if c == nil || has.copy != nil && !c.filled.After(has.copy.filled) {
			return has
		}
		m.put(n, c)
		return stand(c, HitShared)
	}
	fill := func() modelResult {
		m.fills++
		if err != nil {
			return modelResult{err: err}
		}
		c := &modelCopy{key: string(appendKey(nil, property, &q)), query: q, filled: now, rows: rows}
		m.put(n, c)
		if m.shared != nil {
			m.shared[c.key] = c
		}
		return modelResult{copy: c, how: Filled}
	}
	result := stand(freshest(m.memory[n], property, q), HitMemory)
	if !bypass {
		if result.copy != nil && !result.stale {
			return result
		}
		if result = lookUp(result); result.copy != nil && !result.stale {
			return result
		}
	}
	filled := fill()
	waits := bypass || result.copy == nil || m.failing[n][result.copy]
	if errors.Is(err, errUpstream) && result.copy != nil && !bypass {
		m.failing[n][result.copy] = true
	}
	switch {
	case !waits:
		return result
	case err == nil:
		return filled
	case bypass:
		result = lookUp(result)
	}
	result.err = err
	return result
}

func (m *model) put(n int, c *modelCopy) {
	if old := m.memory[n][c.key]; old == nil || !old.filled.After(c.filled) {
		m.memory[n][c.key] = c
	}
}

func TestTheWalkIsThatOfItsModel(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("alone, seed ", seed), func(t *testing.T) {
			clock := newClock()
			walk(t, seed, newModel(false), clock, newReplica(t, nil, clock), newReplica(t, nil, clock))
		})
	}
	server := redistest.Single(t)
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("with Redis, seed ", seed), func(t *testing.T) {
			clock := newClock()
			client := func() redis.UniversalClient { return patient(t, server) }
			walk(t, seed, newModel(true), clock, newReplica(t, client(), clock), newReplica(t, client(), clock))
		})
	}
}

// walk has two replicas and the model do the same, and compares.
func walk(t *testing.T, seed uint64, m *model, clock *clock, replicas ...*replica) {
	random := rand.New(rand.NewPCG(seed, 1))
	series := narrow("a")
	series.Dimension, series.RowLimit = translate.ByDate, translate.WideSample
	queries := []translate.Query{narrow("a"), wide("a"), narrow("b"), series}
	samples := map[int]*translate.Rows{3: rowsOf(t, 3), translate.NarrowSample: rowsOf(t, translate.NarrowSample)}
	upstream := sourceOf(nil)
	var history []string
	for range 120 {
		clock.advance(time.Duration(random.Int64N(int64(life) * 2 / 3)))
		if random.IntN(40) == 0 {
			clock.advance(maxStale - life)
		}
		n, property, query := random.IntN(2), fmt.Sprint(t.Name(), random.IntN(2)), queries[random.IntN(len(queries))]
		rows := []int{3, translate.NarrowSample}[random.IntN(2)]
		err := []error{nil, nil, nil, errUpstream, errBudget}[random.IntN(5)]
		upstream.fill = func(context.Context, int64) (*translate.Rows, error) {
			if err != nil {
				return nil, err
			}
			return samples[rows], nil
		}
		q := upstream.question(property, query)
		q.Bypass = random.IntN(8) == 0
		history = append(history, fmt.Sprintf("%v replica %d asks %s for %v of %s, bypass %v; there are %d rows, %v",
			clock.Now().UTC().Format(time.TimeOnly), n, property, query.RowLimit, query.Site, q.Bypass, rows, err))
		want := m.do(n, clock.Now(), property, query, q.Bypass, rows, err)
		has := replicas[n].Has(t.Context(), q)
		got, gotErr := replicas[n].Do(t.Context(), q)
		replicas[n].landed()
		if has != (!q.Bypass && want.err == nil && want.how != Filled) {
			t.Errorf("Has is %v before %+v", has, want)
		}
		compare(t, got, gotErr, want)
		upstream.want(t, m.fills)
		if t.Failed() {
			t.Fatalf("after:\n%s", slices.Concat(history[max(0, len(history)-12):]))
		}
	}
}

func compare(t *testing.T, got Found, err error, want modelResult) {
	t.Helper()
	if !errors.Is(err, want.err) || err != nil && want.err == nil {
		t.Errorf("failed with %v, want %v", err, want.err)
	}
	if got.Entry == nil || want.copy == nil {
		if got.Entry != nil || want.copy != nil {
			t.Errorf("found %+v, want %+v", got, want)
		}
		return
	}
	// Has has brought the copy of Redis to memory.
	how := want.how
	if how == HitShared {
		how = HitMemory
	}
	if got.Status != how && got.Status != want.how || got.Stale != want.stale {
		t.Errorf("found %v, stale %v, want %v, stale %v", got.Status, got.Stale, how, want.stale)
	}
	if !got.Entry.filled.Equal(want.copy.filled) || got.Entry.key != want.copy.key || got.Entry.rows.Len() != want.copy.rows {
		t.Errorf("found %d rows of %v under %s, want %+v", got.Entry.rows.Len(), got.Entry.filled, got.Entry.key, want.copy)
	}
}
