package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/google/uuid"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/settings"
	"sara/proxy"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/schedule"
)

// collectCommand fills the archive.
type collectCommand struct {
	sourceFlags
	settings.Pace
	console.Output
	Property string `placeholder:"PROPERTY" help:"Collect only this property: its id, Search Console property, slug or domain; default: all."`
	Since    *date  `placeholder:"DATE" help:"First day, YYYY-MM-DD; default: the first day that Search Console has and the plan keeps."`
	Until    *date  `placeholder:"DATE" help:"Last day, YYYY-MM-DD; default: the last day that Search Console has."`
}

// Validate implements kong's check of a command line.
func (c *collectCommand) Validate() error {
	if c.Since != nil && c.Until != nil && c.Since.Date > c.Until.Date {
		return fmt.Errorf("--since %s is after --until %s", c.Since, c.Until)
	}
	return nil
}

// collectRecord is the archive of a property after a run.
type collectRecord struct {
	ID                string  `json:"id"`
	GSCProperty       string  `json:"gsc_property"`
	Days              int     `json:"days"` // archived by this run
	FirstArchivedDate *string `json:"first_archived_date"`
	LastArchivedDate  *string `json:"last_archived_date"`
	Complete          bool    `json:"complete"`
	Note              string  `json:"note"` // why it is not complete; empty when it is
}

func (r collectRecord) Columns() []console.Column {
	return []console.Column{{"GSC PROPERTY", r.GSCProperty}, {"DAYS", strconv.Itoa(r.Days)}, {"FIRST", console.Cell(r.FirstArchivedDate)},
		{"LAST", console.Cell(r.LastArchivedDate)}, {"COMPLETE", console.YesNo(r.Complete)}, {"ID", r.ID}, {"NOTE", r.Note}}
}

func (c *collectCommand) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(source *jobs.Source) error { return c.collect(ctx, con, source) })
}

func (c *collectCommand) collect(ctx context.Context, con *console.Console, source *jobs.Source) error {
	properties, err := jobs.Chosen(ctx, source.Store, c.Property, source.Collectable, func(p collector.Property) string { return p.PropertyID })
	if err != nil {
		return err
	}
	history, err := backend.OpenArchive(c.Archive, con.Now)
	if err != nil {
		return err
	}
	if c.Property == "" {
		noteErased(ctx, con, source.Store, history)
	}
	progress, end := newProgress(con.Stderr, collecting)
	defer end()
	work, err := newCollector(c.Pace, collector.Config{History: history, Gateway: source.Gateway, Store: source.Store,
		Current: source.CurrentCollectable, RunConfig: schedule.RunConfig{Progress: progress, Now: con.Now}})
	if err != nil {
		return err
	}
	results, err := work.Collect(ctx, properties, collector.Span{Since: c.Since.day(), Until: c.Until.day()})
	end()
	if err != nil {
		return errResumable
	}
	return c.report(ctx, con, source.Store, results)
}

// noteErased deletes what is left of the history of removed properties. A failure does not keep the collector from its work.
func noteErased(ctx context.Context, con *console.Console, store *sqlstore.Store, history *archive.History) {
	err := jobs.Erase(ctx, store, history, con.Now(), func(e jobs.Erased) {
		if e.Objects > 0 {
			con.Note("deleted %s of the archived history of the removed property %s", english.Plural(e.Objects, "object", ""), e.ID)
		}
	})
	if err != nil {
		con.Note("some archived history of removed properties is not deleted yet: %v", err)
	}
}

// errResumable is a run that was interrupted.
var errResumable = errors.New("interrupted: nothing is lost; the next run resumes here")

// report prints the results. It is an error if a property is incomplete that could be complete.
func (c *collectCommand) report(ctx context.Context, con *console.Console, store *sqlstore.Store, results []collector.Result) error {
	records := make([]collectRecord, len(results))
	incomplete := 0
	for i, r := range results {
		state, err := store.ArchiveState(ctx, r.Property.PropertyID)
		if err != nil {
			return err
		}
		records[i] = collectRecord{ID: r.Property.PropertyID, GSCProperty: r.Property.Site, Days: r.Days,
			FirstArchivedDate: console.OptionalDate(state.First), LastArchivedDate: console.OptionalDate(state.Last), Complete: r.Err == nil}
		if r.Err != nil {
			records[i].Note = r.Err.Error()
		}
		if r.Err != nil && !errors.Is(r.Err, collector.ErrNotKept) && !errors.Is(r.Err, collector.ErrRemoved) {
			incomplete++
		}
	}
	return ended(con, c.Output, records, incomplete)
}

// ended prints the records of a run and the next step. It is an error if properties are incomplete that could be complete.
func ended[R console.Record](con *console.Console, o console.Output, records []R, incomplete int) error {
	if err := console.Many(o, con.Stdout, records); err != nil {
		return err
	}
	if incomplete > 0 {
		return fmt.Errorf("%d of %d properties %s incomplete: fix the problems above, then run it again", incomplete, len(records),
			english.PluralWord(incomplete, "is", "are"))
	}
	con.Next(o, "serve the API, and see how all of it is.", console.CommandLine("serve"), console.CommandLine("status"))
	return nil
}

// newCollector returns a collector with the limits of the settings.
func newCollector(pace settings.Pace, config collector.Config) (*collector.Collector, error) {
	config.PerSite, config.PerConnection = pace.CollectRate.N, 2*pace.CollectRate.N
	config.Total = max(schedule.DefaultTotal, config.PerConnection)
	return collector.New(config)
}

// dailyCollection returns the daily job of a server, nil when it is off. Each replica has its own jitter of up to an hour. The
// job yields to the server's requests, shares the gateway, and so its cooldowns, and takes memory from the server's budget.
func dailyCollection(s settings.Collector, config proxy.Config, history *archive.History, server *proxy.Server) (func(context.Context), error) {
	if !s.Collect.On {
		return nil, nil
	}
	source := &jobs.Source{Gateway: config.Reports.Upstream, Store: config.Store, Plans: config.Admission.Plans}
	log := jobLog{config.Log, collecting}
	gateway := jobs.Gateway{Upstream: source.Gateway, Fills: server.Fills()}
	work, err := newCollector(s.Pace, collector.Config{History: history, Gateway: gateway, Store: source.Store,
		Current: source.CurrentCollectable, RunConfig: schedule.RunConfig{Progress: log, Busy: server.Busy, Now: config.Now}})
	if err != nil {
		return nil, err
	}
	erase := jobs.Spaced(eraseEvery, config.Now, func(ctx context.Context) { eraseRemoved(ctx, config, history) })
	job := work.Daily(func(ctx context.Context) ([]collector.Property, error) {
		erase(ctx)
		return source.Collectable(ctx)
	})
	job.Leases, job.Holder, job.Jitter, job.Report = config.Store, uuid.NewString(), rand.N(time.Hour), log.collected
	return job.Run, nil
}

// eraseEvery is how often a server looks for the history of removed properties, with some requests to the object store for each of them. A
// job looks for properties more often while another replica collects.
const eraseEvery = 10 * time.Minute

// eraseRemoved deletes what is left of the history of removed properties. A failure does not keep the collector from its work: it
// is tried again after eraseEvery.
func eraseRemoved(ctx context.Context, config proxy.Config, history *archive.History) {
	err := jobs.Erase(ctx, config.Store, history, config.Now(), func(e jobs.Erased) {
		if e.Objects > 0 {
			config.Log.InfoContext(ctx, "deleted the archived history of a removed property", slog.String("property", e.ID), slog.Int("objects", e.Objects))
		}
	})
	if err != nil {
		config.Log.WarnContext(ctx, "some archived history of removed properties is not deleted yet", slog.Any("error", err))
	}
}
