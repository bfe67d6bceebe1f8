package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"sara/bench/internal/testbed"
)

// A trial is one way to misuse sara.
type trial struct {
	name string
	// fillCache fills sara's memory cache first: a replica that has been running for a while has a full one.
	fillCache bool
	env       func(*world) ([]string, error) // further settings of sara; nil for none
	// headers are those of quiet tenants, for a replica that reads the client's address from one.
	headers []string
	abuse   func(ctx context.Context, s *stage) error // an error is the program's, not sara's
}

func trials() []trial {
	return []trial{
		{name: "movers", fillCache: true, abuse: movers},
		{name: "spenders", fillCache: true, abuse: spenders},
		{name: "heads", fillCache: true, abuse: halfSentHeads},
		{name: "idle", fillCache: true, abuse: idleFromOne},
		{name: "crowd", fillCache: true, abuse: idleFromMany},
		{name: "unread", fillCache: true, abuse: unread},
		{name: "office", abuse: office},
		{name: "guesses", env: trustHeader, headers: []string{addressHeader, quietAddress}, abuse: guesses},
		{name: "rows", env: oneRedis, abuse: rows},
		{name: "split", env: twoRedises, abuse: rows},
		{name: "copies", env: littleMemory, abuse: copies},
		{name: "failing", abuse: failing},
		{name: "lapsed", abuse: unbudgeted},
	}
}

// A stage is where one trial happens. It belongs to the goroutine of the trial.
type stage struct {
	*world
	replica  *testbed.Replica
	tally    *tally  // of the abuser's answers
	crowd    *excuse // while connections from many addresses open
	problems []string
	notes    []string
}

func (s *stage) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}
func (s *stage) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// A result is what a trial found.
type result struct {
	name            string
	before, during  *span
	peak            int64
	tally           *tally // of the abuser's answers
	problems, notes []string
}

// try runs one trial.
func (w *world) try(ctx context.Context, t trial) (_ *result, err error) {
	var env []string
	if t.env != nil {
		if env, err = t.env(w); err != nil {
			return nil, err
		}
	}
	s := &stage{world: w, tally: newTally(), crowd: crowded()}
	if s.replica, err = w.start(env...); err != nil {
		return nil, err
	}
	if t.fillCache {
		if err := s.fillCache(ctx); err != nil {
			return nil, err
		}
	}
	r := &result{name: t.name}
	if err = s.meet(ctx, t, r); err != nil && !hasEnded(s.replica) {
		_, _ = w.StopReplica(s.replica)
		return nil, err
	}
	if err := s.finish(r); err != nil {
		return nil, err
	}
	return r, ctx.Err()
}

// meet runs the abuse while the quiet tenants are asking.
func (s *stage) meet(ctx context.Context, t trial, r *result) error {
	q, err := s.startQuiet(ctx, s.replica.Address, t.headers, s.crowd)
	if err != nil {
		return err
	}
	pause(ctx, s.warmUp)
	_, warmUpErr := q.cut()
	pause(ctx, s.before)
	var cutErr, endErr error
	r.before, cutErr = q.cut()
	abuseErr := t.abuse(ctx, s)
	pause(ctx, s.after)
	r.during, endErr = q.end()
	return errors.Join(abuseErr, warmUpErr, cutErr, endErr)
}

// pause waits, but no longer than until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// finish stops sara, and completes the result.
func (s *stage) finish(r *result) error {
	peak, problems, err := s.stop(s.replica)
	if err != nil {
		return err
	}
	r.peak, r.tally, r.notes = peak, s.tally, s.notes
	r.problems = slices.Concat(problems, r.judge(s.timed), s.problems, s.tally.wrong())
	return nil
}

// Quiet tenants may be answered this much slower than before, unless it is within a person's patience: client, simulator,
// Redis, database and sara share the machine's cores, so the abuser's own work slows every answer.
const (
	slower   = 2
	patience = 250 * time.Millisecond
)

// judge returns what the quiet tenants experienced.
func (r *result) judge(timed bool) (problems []string) {
	if r.before.errors > 0 {
		problems = append(problems, "errors of quiet tenants before the abuse: "+r.before.failures())
	}
	if r.during.excused > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d documented errors of quiet tenants", r.during.excused))
	}
	if r.during.errors > 0 {
		problems = append(problems, "errors of quiet tenants: "+r.during.failures())
	}
	if before, during := r.before.p99(), r.during.p99(); timed && during > slower*before && during > patience {
		problems = append(problems, fmt.Sprintf("quiet tenants wait %v instead of %v", during.Round(time.Millisecond), before.Round(time.Millisecond)))
	}
	return problems
}

const tableHead = "| trial | the abuser's answers | quiet tenants: requests | errors | p99 quiet, ms | p99 during, ms " +
	"| ratio | peak MiB | verdict |\n" +
	"|---|---|---|---|---|---|---|---|---|"

// row is the result's line of the table.
func (r *result) row() string {
	verdict := "passed"
	if len(r.problems) > 0 {
		verdict = "**failed**: " + strings.Join(r.problems, "; ")
	}
	if len(r.notes) > 0 {
		verdict += " (" + strings.Join(r.notes, "; ") + ")"
	}
	before, during := r.before.p99(), r.during.p99()
	return fmt.Sprintf("| %s | %s | %d | %d | %.1f | %.1f | %.1f | %d | %s |", r.name, cmp.Or(r.tally.String(), "none"),
		r.before.requests+r.during.requests, r.before.errors+r.during.errors, milliseconds(before), milliseconds(during),
		float64(during)/max(1, float64(before)), r.peak>>20, strings.NewReplacer("|", "\\|", "\n", " ").Replace(verdict))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sorted returns the entries of a map in the order of its keys.
func sorted(m map[string]int) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
