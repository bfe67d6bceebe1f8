// Package status shows an operator the health of a deployment: replicas, Redis, database, object store, connections, archive, index
// coverage and budgets. A [Report] is for the command sara status; [Register] exports the parts that alerts need as metrics.
//
// Each part reads what it can, and reports what it could not read. To count over all accounts, connections and
// properties is expensive, so a replica stores its counts for the other replicas, and for sara status if there are many
// ([Metrics.Refresh]). Nothing else is written; sara status writes nothing.
package status

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

	"github.com/dustin/go-humanize/english"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
	"sara/proxy"
	"sara/translate"
)

// Report is the whole status. A part that could not be read completely has a problem, and holds what could be read.
type Report struct {
	OK          bool        `json:"ok"`
	CheckedAt   string      `json:"checked_at"`
	CountedAt   string      `json:"counted_at"` // of connections, archive, indexing and budgets: when a replica counted them, if they are many
	Attention   []string    `json:"attention"`  // why it is not ok, for people; empty if it is
	Replicas    []Replica   `json:"replicas"`
	Redis       Redis       `json:"redis"`
	Cache       *Redis      `json:"redis_cache"` // of cached rows; null if it is the same
	Database    Database    `json:"database"`
	ObjectStore ObjectStore `json:"object_store"` // of the archive
	Archive     Archive     `json:"archive"`
	Indexing    Indexing    `json:"indexing"`
	Outages     Connections `json:"connections"`
	Budgets     Budgets     `json:"budgets"`
}

// attend adds a line to the list of what needs attention.
func (r *Report) attend(format string, args ...any) {
	r.Attention = append(r.Attention, fmt.Sprintf(format, args...))
}

// A Deployment is what a report is about.
type Deployment struct {
	Store    settings.Store
	Rows     settings.SharedRows
	Archive  settings.Archive
	Replicas []string // the URLs of their admin endpoints
	Plans    policy.Plans
}

// Look queries the replicas, Redis, the database and the object store. It changes nothing. Its error is a bug: what cannot be read
// is a problem in the report.
func Look(ctx context.Context, d Deployment, now time.Time) (*Report, error) {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	r := &Report{CheckedAt: console.Timestamp(now), Attention: []string{}, Replicas: []Replica{}}
	var asking sync.WaitGroup
	asking.Go(func() { r.Replicas = askReplicas(ctx, d.Replicas) })
	var counted sharedCounts
	asking.Go(func() { r.Redis, counted = askRedis(ctx, d.Store.RedisURL) })
	asking.Go(func() { r.Cache = askCacheRedis(ctx, d.Store.RedisURL, d.Rows) })
	asking.Go(func() { r.ObjectStore = askObjectStore(ctx, d.Archive.ArchiveURL) })
	asking.Wait()
	r.Redis.sealNote = backend.SealNote(d.Store, d.Store.RedisURL)
	defer counted.close()
	store, err := backend.OpenDatabaseReadOnly(ctx, d.Store)
	if store != nil {
		defer func() { _ = store.Close() }() // only read
	}
	r.Database = askDatabase(ctx, store, d.Store.DatabaseURL.String(), err)
	v := view{store: store, plans: d.Plans, calendar: calendar, now: now, counted: counted}
	v.current(ctx).fill(r)
	r.judge()
	return r, nil
}

// view is what the parts of a status are computed from.
type view struct {
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
	return new(backend.OneLine(err))
}

// judge decides what needs attention.
func (r *Report) judge() {
	for _, replica := range r.Replicas {
		if replica.State != proxy.StateReady {
			r.attend("replica %s is %s", replica.address(), strings.TrimSuffix(replica.State+": "+replica.Reason, ": "))
		}
		for _, role := range replica.Circuits.wide() {
			r.attend("replica %s: the circuit breaker of %s is open", replica.address(), role)
		}
	}
	r.Redis.judge(r)
	if r.Cache != nil {
		r.Cache.judge(r)
	}
	r.Database.judge(r)
	if what := r.ObjectStore.Problem; what != nil {
		r.attend("object store: %s", *what)
	}
	for _, part := range []struct {
		name    string
		problem *string
	}{{"archive", r.Archive.Problem}, {"indexing", r.Indexing.Problem}, {"connections", r.Outages.Problem}, {"budgets", r.Budgets.Problem}} {
		if part.problem != nil && r.Database.Problem == nil {
			r.attend("%s: %s", part.name, *part.problem)
		}
	}
	r.judgeCounts()
	r.OK = len(r.Attention) == 0
}

// judgeCounts decides whether connections or properties need attention, by how many there are.
func (r *Report) judgeCounts() {
	if n := r.Outages.Failing; n > 0 {
		r.attend("%d of %d connections %s", n, r.Outages.Total, english.PluralWord(n, "fails", "fail"))
	}
	if n := r.Outages.Sealed.Total; n != nil && *n > 0 {
		r.attend("no secret key opens the credentials of %d of %d connections: %s", *n, r.Outages.Total, r.Outages.Sealed.Connections[0].Note)
	}
	if n := r.Archive.Counts.Late; n > 0 {
		r.attend("the archive of %d of %d properties is %d days or more behind", n, r.Archive.Counts.Properties, lateDays)
	}
	if n := r.Indexing.Counts.Late; n > 0 {
		r.attend("the index coverage of %d of %d properties is %d days old or older", n, r.Indexing.Counts.Properties, staleDays)
	}
	if n := r.Archive.Counts.Failing; n > 0 {
		r.attend("collecting failed in the last run for %d of %d properties: see the notes of the archive", n, r.Archive.Counts.Properties)
	}
	if n := r.Indexing.Counts.Failing; n > 0 {
		r.attend("inspecting failed in the last run for %d of %d properties: see the notes of indexing", n, r.Indexing.Counts.Properties)
	}
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
