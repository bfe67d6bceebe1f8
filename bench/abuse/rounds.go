package main

import (
	"context"
	"fmt"
	"slices"
)

// repeat runs a trial several times, each time with a new sara, and adds up the results. In one round, the 99th percentile
// of the quiet tenants is the tenth slowest of a thousand answers, and two runs of the same binary do not agree on it.
func (w *world) repeat(ctx context.Context, t trial) (*result, error) {
	all, err := w.try(ctx, t)
	for round := 1; err == nil && round < w.rounds; round++ {
		var r *result
		if r, err = w.try(ctx, t); err == nil {
			err = all.merge(r)
		}
	}
	return all, err
}

// merge adds a round. The notes are those of the first round, plus those that differ.
func (r *result) merge(other *result) error {
	r.peak = max(r.peak, other.peak)
	r.problems = append(r.problems, other.problems...)
	for _, note := range other.notes {
		if !slices.Contains(r.notes, note) {
			r.notes = append(r.notes, note)
		}
	}
	r.tally.merge(other.tally)
	for _, spans := range [][2]*span{{r.before, other.before}, {r.during, other.during}} {
		if err := spans[0].merge(spans[1]); err != nil {
			return err
		}
	}
	return nil
}

// merge adds the requests of another span.
func (s *span) merge(other *span) error {
	s.requests += other.requests
	s.errors += other.errors
	s.excused += other.excused
	for kind, n := range other.byKind {
		s.byKind[kind] += n
	}
	if dropped := s.hits.Merge(other.hits) + s.cold.Merge(other.cold); dropped > 0 {
		return fmt.Errorf("%d latencies are out of range", dropped)
	}
	return nil
}

// merge adds the answers of another tally, which is no longer in use.
func (t *tally) merge(other *tally) {
	for event, n := range other.counts {
		t.add(event, n)
	}
}
