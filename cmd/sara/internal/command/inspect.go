package command

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/settings"
	"sara/policy/redisconn"
	"sara/proxy"
	"sara/proxy/jobs/inspector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/jobs/sitemap"
)

// inspectCommand updates the index coverage of properties.
type inspectCommand struct {
	sourceFlags
	settings.Sitemaps
	console.Output
	Property string `placeholder:"PROPERTY" help:"Inspect only this property: its id, Search Console property, slug or domain; default: all."`
	Max      *int   `placeholder:"N" help:"Maximum number of URLs to inspect per property in this run, 0 to only discover them; default: all that are due, within the quota of Search Console."`
}

// Validate implements kong's check of a command line.
func (c *inspectCommand) Validate() error {
	if c.Max != nil && *c.Max < 0 {
		return fmt.Errorf("--max %d is negative", *c.Max)
	}
	return nil
}

// inspectRecord is the index coverage of a property after a run.
type inspectRecord struct {
	ID          string           `json:"id"`
	GSCProperty string           `json:"gsc_property"`
	URLs        int              `json:"urls"`
	Capped      bool             `json:"capped"`
	Inspected   int              `json:"inspected"` // in this run
	Left        int              `json:"left"`      // that were due and were not inspected
	Complete    bool             `json:"complete"`  // there was no error, and nothing that was due is left
	Note        string           `json:"note"`      // why it is not complete; empty when it is
	Problems    []sitemapProblem `json:"sitemap_problems"`
}

type sitemapProblem struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
}

func (r inspectRecord) Columns() []console.Column {
	return []console.Column{{"GSC PROPERTY", r.GSCProperty}, {"URLS", strconv.Itoa(r.URLs)}, {"CAPPED", console.YesNo(r.Capped)},
		{"INSPECTED", strconv.Itoa(r.Inspected)}, {"LEFT", strconv.Itoa(r.Left)}, {"COMPLETE", console.YesNo(r.Complete)}, {"ID", r.ID},
		{"NOTE", r.Note}}
}

func (c *inspectCommand) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(source *jobs.Source) error { return c.inspect(ctx, con, source) })
}

func (c *inspectCommand) inspect(ctx context.Context, con *console.Console, source *jobs.Source) (err error) {
	properties, err := jobs.Chosen(ctx, source.Store, c.Property, source.Inspectable, func(p inspector.Property) string { return p.PropertyID })
	if err != nil {
		return err
	}
	history, err := backend.OpenArchive(c.Archive, con.Now)
	if err != nil {
		return err
	}
	redis, err := backend.OpenRedis(c.RedisURL)
	if err != nil {
		return err
	}
	if redis != nil {
		defer func() { err = errors.Join(err, redis.Close()) }()
	}
	progress, end := newProgress(con.Stderr, inspecting)
	defer end()
	work, err := newInspector(c.Sitemaps, con.Version, inspector.Config{Gateway: source.Gateway,
		Current: source.CurrentInspectable, Quota: jobs.InspectionQuota(source.Store, redis),
		RunConfig: schedule.RunConfig{Progress: progress, Now: con.Now}}, source.Store, history)
	if err != nil {
		return err
	}
	results, err := work.Inspect(ctx, properties, inspector.Options{Max: c.Max})
	end()
	if err != nil {
		return errResumable
	}
	return c.report(con, results)
}

// note explains why a property is incomplete.
func (c *inspectCommand) note(r inspector.Result) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Left == 0 || r.Why == nil && c.Max == nil:
		return ""
	case r.Why != nil:
		return fmt.Sprintf("URLs left: %d; %v", r.Left, r.Why)
	}
	return fmt.Sprintf("URLs left: %d; --max %d is reached", r.Left, *c.Max)
}

// report prints the results. It is an error if a property failed; URLs that are left for other reasons wait for another day.
func (c *inspectCommand) report(con *console.Console, results []inspector.Result) error {
	records := make([]inspectRecord, len(results))
	incomplete := 0
	for i, r := range results {
		records[i] = inspectRecord{ID: r.Property.PropertyID, GSCProperty: r.Property.Site, URLs: r.URLs, Capped: r.Capped, Inspected: r.Inspected,
			Left: r.Left, Complete: r.Err == nil && r.Left == 0, Note: c.note(r),
			Problems: console.Each(r.Problems, func(p inspector.SitemapProblem) sitemapProblem { return sitemapProblem(p) })}
		if r.Err != nil && !errors.Is(r.Err, inspector.ErrNotInspected) && !errors.Is(r.Err, inspector.ErrRemoved) {
			incomplete++
		}
	}
	return ended(con, c.Output, records, incomplete)
}

// newInspector completes a configuration with what all inspectors of this program share.
func newInspector(s settings.Sitemaps, version string, config inspector.Config, store *sqlstore.Store, history *archive.History) (
	*inspector.Inspector, error) {
	var err error
	config.Sitemaps, err = sitemap.New(sitemap.Config{AllowLoopback: s.SitemapAllowLoopback.True, UserAgent: "sara/" + version})
	if err != nil {
		return nil, err
	}
	config.Store, config.Leases, config.Holder, config.History = store, store, uuid.NewString(), history
	return inspector.New(config)
}

// dailyInspection returns the daily job of a server, nil when it is off. Each replica has its own jitter of up to an hour. The
// job yields to the server's requests, and takes memory from the server's budget.
func dailyInspection(s settings.Inspector, config proxy.Config, redis redisconn.Client, history *archive.History, server *proxy.Server) (
	func(context.Context), error) {
	if !s.Inspect.On {
		return nil, nil
	}
	source := &jobs.Source{Gateway: config.Reports.Upstream, Store: config.Store, Plans: config.Admission.Plans}
	log := newInspectionLog(config.Log, config.Registry)
	gateway := jobs.Gateway{Upstream: source.Gateway, Fills: server.Fills()}
	work, err := newInspector(s.Sitemaps, config.Version, inspector.Config{Gateway: gateway,
		Current: source.CurrentInspectable, Quota: jobs.InspectionQuota(config.Store, redis),
		RunConfig: schedule.RunConfig{Progress: log, Busy: server.Busy, Now: config.Now}}, config.Store, history)
	if err != nil {
		return nil, err
	}
	job := work.Daily(source.Inspectable)
	job.Jitter, job.Report = rand.N(time.Hour), log.inspected
	return job.Run, nil
}
