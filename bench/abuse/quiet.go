package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sara/bench/internal/subprocess"
)

// quiet are the quiet tenants, which ask all the time, in the asker's process. Its methods belong to one goroutine.
type quiet struct {
	process *subprocess.Process
	spare   func() bool // stops signalling the process when the context ends: its PID may be another process's then
	excuses []*excuse
}

// A span is what quiet tenants experienced for some time.
type span struct {
	requests, errors, excused int
	byKind                    map[string]int // errors, by what failed and how
	hits, cold                *hdrhistogram.Histogram
}

// startQuiet asks each tenant's cached question once, and then starts asking all the time, until end.
func (w *world) startQuiet(ctx context.Context, address string, headers []string, excuses ...*excuse) (*quiet, error) {
	asked := questions{Address: address, Headers: headers, HitRate: w.hitRate, ColdRate: w.coldRate}
	for _, tenant := range w.tenants {
		property := w.property(tenant, 0)
		asked.Tenants = append(asked.Tenants, tenantQuestions{Key: w.Keys[tenant][0], Property: property, Hit: property + "/queries"})
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "sara-abuse-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // the asker has read it by then
	file := filepath.Join(folder, "questions.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	q := &quiet{excuses: excuses}
	if q.process, err = subprocess.Start(subprocess.Config{Program: w.asker, Args: []string{askerCommand, file}, Usual: w.yields}); err != nil {
		return nil, err
	}
	q.spare = context.AfterFunc(ctx, func() { _ = syscall.Kill(q.process.PID, syscall.SIGTERM) })
	if _, err := q.process.Await(askerReady); err != nil {
		q.spare()
		return nil, errors.Join(err, q.process.Stop())
	}
	return q, nil
}

// cut ends a span, and begins the next.
func (q *quiet) cut() (*span, error) { return q.signal(syscall.SIGUSR1) }

// end stops asking, and waits for the answers in flight, which are in the last span.
func (q *quiet) end() (*span, error) {
	q.spare()
	last, err := q.signal(syscall.SIGTERM)
	return last, errors.Join(err, q.process.Stop())
}

// signal makes the asker print a report.
func (q *quiet) signal(s syscall.Signal) (*span, error) {
	if err := syscall.Kill(q.process.PID, s); err != nil {
		return nil, fmt.Errorf("signal the quiet tenants: %w", err)
	}
	text, err := q.process.Await(reportHead)
	if err != nil {
		return nil, err
	}
	r, err := parseReport(text)
	if err != nil {
		return nil, fmt.Errorf("read a report: %w", err)
	}
	return q.span(r), nil
}

// span judges the failures of a report.
func (q *quiet) span(r *report) *span {
	s := &span{requests: r.Requests, byKind: map[string]int{}, hits: r.hits, cold: r.cold}
	for _, f := range r.Failures {
		if slices.ContainsFunc(q.excuses, func(e *excuse) bool { return e.allows(f.Kind, f.How, f.Due) }) {
			s.excused++
			continue
		}
		s.errors++
		s.byKind[f.Kind+": "+f.How]++
	}
	return s
}

// p99 returns the 99th percentile of the cached questions.
func (s *span) p99() time.Duration {
	const percent = 99
	return time.Duration(s.hits.ValueAtQuantile(percent))
}

func (s *span) coldP99() time.Duration {
	const percent = 99
	return time.Duration(s.cold.ValueAtQuantile(percent))
}

// failures lists the errors.
func (s *span) failures() string {
	var parts []string
	for kind, n := range sorted(s.byKind) {
		parts = append(parts, fmt.Sprintf("%s (× %d)", kind, n))
	}
	return strings.Join(parts, "; ")
}
