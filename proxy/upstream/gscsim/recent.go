package gscsim

import (
	"context"
	"slices"
	"sync"
)

// maxRecentRows bounds the rows of all recent answers to 20 MB, at 40 bytes each. An answer itself counts as some rows.
const (
	maxRecentRows = 500_000
	answerRows    = 8
)

// recentAnswers keeps the rows of the latest unfiltered answers, and evicts the oldest first. Servers with the same sites are mostly
// asked the same queries, above all by tests, and computing an answer means generating every cell of every day of its range.
// The zero value is ready to use.
type recentAnswers struct {
	mu    sync.Mutex
	byKey map[answerKey][]row // guarded by mu, as are the fields below; the rows are immutable
	order []answerKey         // ascending by age
	rows  int
}

// answerKey is everything that determines the rows of an unfiltered answer.
type answerKey struct {
	world       *world
	extent      extent
	from, to    day
	dimensions  string // one byte each
	aggregation aggregation
	state       dataState
	start       int
	limit       int
}

func (e *evaluation) key() answerKey {
	k := answerKey{world: e.world, extent: e.extent, from: e.from, to: e.to, aggregation: e.aggregation, state: e.state, start: e.start, limit: e.limit}
	for _, d := range e.dimensions {
		k.dimensions += string(rune(d))
	}
	return k
}

func (r *recentAnswers) get(key answerKey) ([]row, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows, ok := r.byKey[key]
	return rows, ok
}

func (r *recentAnswers) put(key answerKey, rows []row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byKey[key]; ok || len(rows) > maxRecentRows {
		return
	}
	if r.byKey == nil {
		r.byKey = map[answerKey][]row{}
	}
	r.byKey[key], r.order, r.rows = rows, append(r.order, key), r.rows+len(rows)+answerRows
	for r.rows > maxRecentRows {
		oldest := r.order[0]
		r.rows -= len(r.byKey[oldest]) + answerRows
		r.order = r.order[1:]
		delete(r.byKey, oldest)
	}
}

// run returns the rows of an evaluation: those of a recent answer, or new ones. The rows are immutable.
func (r *recentAnswers) run(ctx context.Context, e *evaluation) ([]row, error) {
	if len(e.filters) > 0 {
		return e.run(ctx)
	}
	key := e.key()
	if rows, ok := r.get(key); ok {
		return rows, nil
	}
	rows, err := e.run(ctx)
	if err == nil {
		rows = slices.Clone(rows) // so as not to keep the array of all groups
		r.put(key, rows)
	}
	return rows, err
}
