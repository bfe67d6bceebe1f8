package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
	"sara/proxy"
	"sara/translate"
)

// statusCommand shows the operator the health of everything. Each part reads what it can, and reports what it could not read.
type statusCommand struct {
	storeFlags
	settings.Admin
	settings.Plans
	console.Output
	Replica []string `sep:"none" placeholder:"URL" help:"Admin endpoints of a replica, such as http://10.0.0.7:9090; may be repeated. Every address of a name is queried. Default: the address of --admin-listen on this machine."`
}

// errAttention ends a status with exit status 1.
var errAttention = errors.New("something needs attention")

// statusReport is the whole status. A part that could not be read completely has a problem, and holds what could be read.
type statusReport struct {
	OK        bool             `json:"ok"`
	CheckedAt string           `json:"checked_at"`
	Attention []string         `json:"attention"` // why it is not ok, for people; empty if it is
	Replicas  []replicaStatus  `json:"replicas"`
	Redis     redisStatus      `json:"redis"`
	Database  databaseStatus   `json:"database"`
	Archive   archiveStatus    `json:"archive"`
	Indexing  indexingStatus   `json:"indexing"`
	Outages   connectionStatus `json:"connections"`
	Budgets   budgetStatus     `json:"budgets"`
}

// attend adds a line to what needs attention.
func (r *statusReport) attend(format string, args ...any) {
	r.Attention = append(r.Attention, fmt.Sprintf(format, args...))
}

func (c *statusCommand) Run(ctx context.Context, con *console.Console) error {
	report, err := c.look(ctx, con.Now(), c.PlansFile.Table())
	if err != nil {
		return err
	}
	if c.JSON {
		err = console.PrintJSON(con.Stdout, report)
	} else {
		err = report.print(con.Stdout)
	}
	if err == nil && !report.OK {
		err = errAttention
	}
	return err
}

// look queries replicas, Redis and the database.
func (c *statusCommand) look(ctx context.Context, now time.Time, plans policy.Plans) (*statusReport, error) {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	bases := c.Replica
	if len(bases) == 0 {
		bases = []string{""}
	}
	for i := range bases {
		if bases[i], err = adminURL(c.AdminListen, bases[i]); err != nil {
			return nil, err
		}
	}
	r := &statusReport{CheckedAt: console.Timestamp(now), Attention: []string{}, Replicas: []replicaStatus{}}
	var asking sync.WaitGroup
	asking.Go(func() { r.Replicas = askReplicas(ctx, bases) })
	var counted sharedCounts
	asking.Go(func() { r.Redis, counted = c.askRedis(ctx) })
	asking.Wait()
	defer counted.close()
	store, err := backend.OpenDatabaseReadOnly(ctx, c.Store)
	if store != nil {
		defer func() { _ = store.Close() }() // only read
	}
	r.Database = askDatabase(ctx, store, c.DatabaseURL.String(), err)
	view := statusView{store: store, plans: plans, calendar: calendar, now: now, counted: counted}
	properties, err := view.properties(ctx)
	r.Archive = view.archive(properties, err)
	r.Indexing = view.indexing(ctx)
	r.Outages = view.outages(ctx)
	r.Budgets = view.budgets(ctx, properties)
	r.judge()
	return r, nil
}

// statusView is what the parts of a status are computed from.
type statusView struct {
	store    *sqlstore.Store // nil if it could not be opened
	plans    policy.Plans
	calendar translate.Calendar
	now      time.Time
	counted  sharedCounts
}

var errNoDatabase = errors.New("the database could not be read")

// problem is the text of an error in a part of the status, null for none.
func problem(err error) *string {
	if err == nil {
		return nil
	}
	text := backend.OneLine(err)
	return &text
}

// judge decides what needs attention.
func (r *statusReport) judge() {
	for _, replica := range r.Replicas {
		if replica.State != proxy.StateReady {
			r.attend("replica %s is %s", replica.address(), strings.TrimSuffix(replica.State+": "+replica.Reason, ": "))
		}
	}
	switch {
	case r.Redis.State == redisAway:
		r.attend("Redis: %s", console.Cell(r.Redis.Problem))
	case r.Redis.Problem != nil:
		r.attend("Redis does not report all of its state: %s", *r.Redis.Problem)
	}
	switch d := r.Database; {
	case d.Problem != nil:
		r.attend("database: %s", *d.Problem)
	case d.Schema > d.Known:
		r.attend("database: the schema has version %d, but this program knows only versions up to %d: run the newer program", d.Schema, d.Known)
	case d.Schema < d.Known:
		r.attend("database: the schema has version %d, the latest is %d: run sara migrate", d.Schema, d.Known)
	}
	for _, part := range []struct {
		name    string
		problem *string
	}{{"archive", r.Archive.Problem}, {"indexing", r.Indexing.Problem}, {"connections", r.Outages.Problem}, {"budgets", r.Budgets.Problem}} {
		if part.problem != nil && r.Database.Problem == nil {
			r.attend("%s: %s", part.name, *part.problem)
		}
	}
	if n := len(r.Outages.Unhealthy); n > 0 {
		r.attend("%d of %d connections fail", n, r.Outages.Total)
	}
	if n := r.Archive.Counts.Late; n > 0 {
		r.attend("the archive of %d of %d properties is %d days or more behind", n, r.Archive.Counts.Properties, lateDays)
	}
	if n := r.Indexing.Counts.Late; n > 0 {
		r.attend("the index coverage of %d of %d properties is %d days old or older", n, r.Indexing.Counts.Properties, staleDays)
	}
	r.OK = len(r.Attention) == 0
}

// worstFirst sorts by lag in days, the largest first; what was never done comes before all.
func worstFirst[S any](list []S, lag func(S) *int) {
	days := func(of S) int {
		if n := lag(of); n != nil {
			return *n
		}
		return math.MaxInt
	}
	slices.SortStableFunc(list, func(a, b S) int { return cmp.Compare(days(b), days(a)) })
}
