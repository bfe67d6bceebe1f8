package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/settings"
	"sara/proxy"
	"sara/proxy/jobs/collector"
	"sara/proxy/upstream"
)

// collectCommand fills the archive.
type collectCommand struct {
	storeFlags
	settings.Archive
	settings.Upstream
	settings.Plans
	settings.Pace
	output
	Property string `placeholder:"PROPERTY" help:"Only this one: id, Search Console property, slug or domain; all if not set."`
	Since    *date  `placeholder:"DATE" help:"First day, YYYY-MM-DD; the first that Search Console has and the plan keeps if not set."`
	Until    *date  `placeholder:"DATE" help:"Last day, YYYY-MM-DD; the last that Search Console has if not set."`
}

// Validate implements kong's check of a command line.
func (c *collectCommand) Validate() error {
	if c.Since != nil && c.Until != nil && c.Since.Date > c.Until.Date {
		return fmt.Errorf("--since %s is after --until %s", c.Since, c.Until)
	}
	return nil
}

// collectRecord is how the archive of a property stands after a run.
type collectRecord struct {
	ID                string  `json:"id"`
	GSCProperty       string  `json:"gsc_property"`
	Days              int     `json:"days"` // that this run archived
	FirstArchivedDate *string `json:"first_archived_date"`
	LastArchivedDate  *string `json:"last_archived_date"`
	Complete          bool    `json:"complete"`
	Note              string  `json:"note"` // why it is not complete; empty when it is
}

func (collectRecord) header() []string {
	return []string{"GSC PROPERTY", "DAYS", "FIRST", "LAST", "COMPLETE", "ID", "NOTE"}
}

func (r collectRecord) cells() []string {
	return []string{r.GSCProperty, strconv.Itoa(r.Days), cell(r.FirstArchivedDate), cell(r.LastArchivedDate), yesNo(r.Complete), r.ID, r.Note}
}

func (c *collectCommand) Run(ctx context.Context, con *console) error {
	return c.storeFlags.use(ctx, func(store *sqlstore.Store) error {
		gateway, err := backend.OpenGateway(c.Upstream, upstream.Config{Connections: store})
		if err != nil {
			return err
		}
		defer gateway.Close()
		return c.collect(ctx, con, &searchConsole{gateway: gateway, store: store, plans: c.PlansFile.Table()})
	})
}

func (c *collectCommand) collect(ctx context.Context, con *console, source *searchConsole) error {
	properties, err := c.chosen(ctx, source)
	if err != nil {
		return err
	}
	history, err := backend.OpenArchive(c.Archive, con.now)
	if err != nil {
		return err
	}
	progress, end := newProgress(con.stderr)
	work, err := newCollector(c.Pace, collector.Config{History: history, Source: source, Ledger: source, Progress: progress, Now: con.now})
	if err != nil {
		return err
	}
	results, err := work.Collect(ctx, properties, collector.Span{Since: c.Since.day(), Until: c.Until.day()})
	end()
	if err != nil {
		return fmt.Errorf("interrupted: what is archived stays, and the next run goes on from there: %w", err)
	}
	return c.report(ctx, con, source.store, results)
}

// chosen returns the properties of the command line.
func (c *collectCommand) chosen(ctx context.Context, source *searchConsole) ([]collector.Property, error) {
	properties, err := source.properties(ctx)
	if err != nil {
		return nil, err
	}
	return only(ctx, source.store, c.Property, properties, func(p collector.Property) string { return p.ID })
}

// report prints what became of the properties. It is an error if one is not complete that could be.
func (c *collectCommand) report(ctx context.Context, con *console, store *sqlstore.Store, results []collector.Result) error {
	records := make([]collectRecord, len(results))
	incomplete := 0
	for i, r := range results {
		state, _, err := store.ArchiveState(ctx, r.Property.ID)
		if err != nil {
			return err
		}
		records[i] = collectRecord{ID: r.Property.ID, GSCProperty: r.Property.Site, Days: r.Days,
			FirstArchivedDate: optionalDate(state.First), LastArchivedDate: optionalDate(state.Last), Complete: r.Err == nil}
		if r.Err != nil {
			records[i].Note = r.Err.Error()
		}
		if r.Err != nil && !errors.Is(r.Err, collector.ErrNotKept) {
			incomplete++
		}
	}
	return ended(con, c.output, records, incomplete)
}

// ended prints what became of properties in a run, and what comes next. It is an error if some are not complete that could be.
func ended[R record](con *console, o output, records []R, incomplete int) error {
	if err := many(o, con.stdout, records); err != nil {
		return err
	}
	if incomplete > 0 {
		return fmt.Errorf("%d of %d properties are not complete; run it again when what is wrong with them has passed", incomplete, len(records))
	}
	con.next(o, "serve the API, and see how all of it is.", commandLine("serve"), commandLine("status"))
	return nil
}

// newCollector returns a collector that keeps the pace.
func newCollector(pace settings.Pace, config collector.Config) (*collector.Collector, error) {
	config.PerSite, config.PerConnection = pace.CollectRate.N, 2*pace.CollectRate.N
	config.Total = max(collector.DefaultTotal, config.PerConnection)
	return collector.New(config)
}

// dailyCollection returns the daily run beside a server, nil when it is off. It comes to a new day within an hour, each replica at
// its own time; it gives way to the server's own calls, and they tell each other which sites have to rest.
func dailyCollection(s settings.Collector, config proxy.Config, history collector.History, server *proxy.Server) (func(context.Context), error) {
	if !s.Collect.On {
		return nil, nil
	}
	source := &searchConsole{gateway: config.Upstream, store: config.Store, plans: config.Plans}
	progress := logProgress{config.Log}
	work, err := newCollector(s.Pace, collector.Config{History: history, Source: source, Ledger: source, Busy: server.Busy,
		Progress: progress, Now: config.Now})
	if err != nil {
		return nil, err
	}
	daily := collector.Daily{Collector: work, Properties: source.properties, Leases: config.Store, Holder: uuid.NewString(),
		Jitter: rand.N(time.Hour), Report: progress.report}
	return daily.Run, nil
}
