package command

import (
	"sync"
	"time"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/reporting"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
)

// reportProgress is the progress of a report for people, as that of a job whose steps are files.
type reportProgress struct {
	con   *console.Console
	quiet bool

	mu   sync.Mutex        // guards what follows
	to   schedule.Progress // nil until there is something to show
	stop func()
}

var _ reporting.Progress = (*reportProgress)(nil)

// show returns the progress to report to.
func (p *reportProgress) show() schedule.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.quiet:
		return schedule.NoProgress{}
	case p.to == nil:
		p.to, p.stop = newProgress(p.con.Stderr, jobWords{"files", "report", "reporting", "reported"})
	}
	return p.to
}

func (p *reportProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.stop()
	}
}

func targetOf(p reporting.Property) upstream.Target {
	return upstream.Target{PropertyID: p.ID, Site: p.Site}
}

// Planned implements reporting.Progress.
func (p *reportProgress) Planned(files map[string]int) {
	p.show().Planned(files)
}

// Wrote implements reporting.Progress.
func (p *reportProgress) Wrote(property reporting.Property, file string) {
	p.show().Advanced(targetOf(property), file)
}

// Ended implements reporting.Progress. What failed is printed at the end.
func (p *reportProgress) Ended(property reporting.Property) {
	p.show().Ended(targetOf(property), nil)
}

// Waiting implements reporting.Progress.
func (p *reportProgress) Waiting(server string, until time.Time, reason error) {
	p.show().Paused(upstream.Target{Site: server}, until, reason)
}
