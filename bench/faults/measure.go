package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	askers     = 4
	askEvery   = 20 * time.Millisecond // by each asker
	countEvery = 25 * time.Millisecond
	longBack   = 20 * time.Second
)

// A result is what clients saw of one fault.
type result struct {
	fault       fault
	asked       int
	failed      map[string]int // known questions that were not answered, by what came instead
	slowest     time.Duration  // of the known questions
	back        time.Duration  // from the end of the fault to the last failure; 0: no failure after it
	admitted    int            // of the counted day
	coldAsked   int
	coldFailed  map[string]int
	noted       int // how many answers to new questions have the fault's note
	coldSlowest time.Duration
	lastFailure time.Time
	counted     []countedAnswer
	bound       int       // how many may be admitted beyond the day, as documented
	refused     time.Time // when the counted day was last found used up
	err         error     // the fault could not be started or ended
}

// share returns the share of the known questions that were answered, in percent.
func (r *result) share() float64 {
	failed := 0
	for _, n := range r.failed {
		failed += n
	}
	return 100 * (1 - float64(failed)/float64(max(1, r.asked)))
}

// A trial is one fault in progress.
type trial struct {
	*world
	begun  chan struct{} // closed when the fault has begun
	mu     sync.Mutex    // guards the result
	result result
}

// try measures one fault. The account counts.
func (w *world) try(ctx context.Context, f fault, account int) *result {
	if w.timed {
		pause(ctx, time.Until(w.settled))
	}
	t := &trial{world: w, begun: make(chan struct{}), result: result{fault: f, failed: map[string]int{}, coldFailed: map[string]int{}}}
	asking, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range askers {
		clients.Go(func() { t.askKnown(asking, i) })
	}
	clients.Go(func() { t.count(asking, account) })
	if f.cold != nil {
		clients.Go(func() { t.askCold(asking) })
	}
	pause(ctx, t.before)
	begun := time.Now()
	err := errors.Join(t.hold(ctx), w.revive())
	ended := time.Now()
	t.awaitQuiet(ctx, ended)
	stop()
	clients.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.result.lastFailure.After(ended) {
		t.result.back = t.result.lastFailure.Sub(ended)
	}
	t.result.bound = f.loses.bound(t.result.counted, begun, ended) + f.midnights*countedADay
	t.result.err = err
	return &t.result
}

// hold begins the fault, holds it, and ends it, even if it began only in part.
func (t *trial) hold(ctx context.Context) error {
	f, begun := t.result.fault, error(nil)
	if err := t.bounded(ctx, f.begin); err != nil {
		begun = fmt.Errorf("begin: %w", err)
	} else {
		close(t.begun)
		pause(ctx, max(f.hold, t.world.hold))
	}
	if f.end == nil {
		return begun
	}
	if err := t.bounded(context.WithoutCancel(ctx), f.end); err != nil {
		return errors.Join(begun, fmt.Errorf("end: %w", err))
	}
	return begun
}

func (t *trial) bounded(ctx context.Context, step func(context.Context, *world) error) error {
	const longest = time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	return step(ctx, t.world)
}

// awaitQuiet waits for some time without a failure, and until the counted day is used up.
func (t *trial) awaitQuiet(ctx context.Context, ended time.Time) {
	for ctx.Err() == nil && time.Since(ended) < longBack {
		pause(ctx, t.quiet/4)
		t.mu.Lock()
		last, usedUp := t.result.lastFailure, t.result.refused.After(ended) || !t.timed
		t.mu.Unlock()
		if usedUp && time.Since(ended) >= t.quiet && time.Since(last) >= t.quiet {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// askKnown asks known questions in turn.
func (t *trial) askKnown(ctx context.Context, n int) {
	questions := t.known()
	for ; ctx.Err() == nil; n++ {
		a := t.ask(context.WithoutCancel(ctx), 0, questions[n%len(questions)], 0)
		t.mu.Lock()
		t.result.asked++
		t.result.slowest = max(t.result.slowest, a.took)
		if a.status != http.StatusOK {
			t.result.failed[a.code()]++
			t.result.lastFailure = time.Now()
		}
		t.mu.Unlock()
		pause(ctx, askEvery)
	}
}

// count uses up a day.
func (t *trial) count(ctx context.Context, account int) {
	for ctx.Err() == nil {
		a := t.ask(context.WithoutCancel(ctx), account, "/v1/me", 0)
		t.mu.Lock()
		t.result.counted = append(t.result.counted, countedAnswer{time.Now(), a.replica, a.status})
		switch a.status {
		case http.StatusOK:
			t.result.admitted++
		case http.StatusTooManyRequests:
			t.result.refused = time.Now()
		}
		t.mu.Unlock()
		pause(ctx, countEvery)
	}
}

// askCold asks new questions. They must be answered within the balancer's patience for an unknown question.
func (t *trial) askCold(ctx context.Context) {
	const patience = 10 * time.Second
	select {
	case <-t.begun:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		start, end := t.result.fault.cold(int(t.fresh.Add(1)), t.world)
		path := fmt.Sprintf("/v1/properties/%s/queries?start_date=%s&end_date=%s", domain, start.Format(time.DateOnly), end.Format(time.DateOnly))
		a := t.ask(context.WithoutCancel(ctx), 0, path, patience)
		t.mu.Lock()
		t.result.coldAsked++
		t.result.coldSlowest = max(t.result.coldSlowest, a.took)
		if a.status != http.StatusOK {
			t.result.coldFailed[a.code()]++
		} else if strings.Contains(a.body, t.result.fault.note) {
			t.result.noted++
		}
		t.mu.Unlock()
		pause(ctx, 10*askEvery)
	}
}

const tableHead = "| fault | known questions | answered | slowest | instead | back after | admitted of %d | bound | " +
	"new questions: answered, slowest |\n" +
	"|---|---|---|---|---|---|---|---|---|"

func (r *result) row() string {
	cold := "-"
	if r.coldAsked > 0 {
		failed := 0
		for _, n := range r.coldFailed {
			failed += n
		}
		cold = fmt.Sprintf("%d of %d, %.1f s%s", r.coldAsked-failed, r.coldAsked, r.coldSlowest.Seconds(), list(" ", r.coldFailed))
	}
	return fmt.Sprintf("| %s | %d | %.2f %% | %.2f s | %s | %.1f s | %d | %d | %s |", r.fault.name, r.asked, r.share(), r.slowest.Seconds(),
		list("", r.failed), r.back.Seconds(), r.admitted, countedADay+r.bound, cold)
}

// list lists counts.
func list(lead string, counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[name], name))
	}
	if parts == nil {
		return ""
	}
	return lead + strings.Join(parts, ", ")
}

// problems returns the promises that were not kept.
func (r *result) problems(o options) (broken []string) {
	if share := r.share(); share < o.target {
		broken = append(broken, fmt.Sprintf("%.3f %% of the known questions were answered, want %.2f %%", share, o.target))
	}
	if o.timed && r.back > time.Second {
		broken = append(broken, fmt.Sprintf("it took %v until known questions were answered again", r.back))
	}
	if most := countedADay + r.bound; r.admitted > most {
		broken = append(broken, fmt.Sprintf("%d admitted, at most %d may be", r.admitted, most))
	}
	if len(r.coldFailed) > 0 {
		broken = append(broken, "new questions were not answered:"+list(" ", r.coldFailed))
	}
	if r.fault.note != "" && r.noted == 0 {
		broken = append(broken, fmt.Sprintf("none of %d answers to new questions has the note %q", r.coldAsked, r.fault.note))
	}
	if r.err != nil {
		broken = append(broken, r.err.Error())
	}
	const within = 4 * time.Second // three, as for stored answers, and one for this machine
	if slowest := max(r.slowest, r.coldSlowest); o.timed && slowest > within {
		broken = append(broken, fmt.Sprintf("a question was answered after %v", slowest))
	}
	return broken
}
