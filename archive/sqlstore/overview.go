package sqlstore

import (
	"context"
	"slices"
	"time"

	"sara/translate"
)

// An OverviewQuery selects what an Overview counts.
type OverviewQuery struct {
	Plans    []string // whose properties are collected, or inspected; archived properties never are
	Now      time.Time
	LateDays int // how many days behind counts as late
	Most     int // how many properties to return; 0 for none
}

// An Overview counts all properties, and returns the first of them. The database counts, so its size does not grow with their number.
type Overview[P any] struct {
	OverviewCounts
	First []P // the properties that are furthest behind and, of those that are equally far, failed last; ordered by name
}

// OverviewCounts are numbers of properties.
type OverviewCounts struct {
	Properties int // that are collected, or inspected
	Complete   int // of these, those that have all days; in the overview of archives only
	Late       int // of these
	Failing    int // of these, those whose last run failed
	Left       int // all others
	// Oldest is the last day of the archive that is furthest behind, of those that were ever collected; nil if none was, and in the
	// overview of the index coverage.
	Oldest *translate.Date
	// Newest is the start of the newest run that completed a property, or when inspections were last published; nil for never.
	Newest *time.Time
}

// Conditions on days are written as conditions on instants, so the database needs no time zones. A property without days has those of noDay.
// The queries that count all properties need no join for it.
const (
	// isKept is whether a property is collected, or inspected.
	isKept = `(NOT p.archived AND p.workspace_id IN
		(SELECT w.id FROM workspaces w JOIN accounts a ON a.id = w.account_id WHERE a.plan IN (@plans)))`
	failingFirst = "CASE WHEN kept AND failures > 0 THEN 0 ELSE 1 END"
	noDay        = "-1000000"

	withArchives = "FROM properties p LEFT JOIN archive_states s ON s.property_id = p.id"
	archivedDay  = "coalesce(s.last_day, " + noDay + ")"
	// collectedDay is the day up to which the last run completed an archive. @day_zero is the instant of a run that completes day zero.
	collectedDay = "(s.collected_at - CAST(@day_zero AS BIGINT)) / 86400000"

	// @today is the instant from which on a run completes an archive.
	countArchives = `SELECT count(*),
			count(CASE WHEN s.collected_at >= @today THEN 1 END),
			count(CASE WHEN coalesce(s.collected_at, 0) < @in_time AND ` + archivedDay + ` <= @late_day
				AND (coalesce(s.collected_at, s.last_day) IS NOT NULL OR p.created_at <= @added_late) THEN 1 END),
			count(CASE WHEN s.failures > 0 THEN 1 END),
			(SELECT count(*) FROM properties),
			(SELECT max(collected_at) FROM archive_states),
			min(CASE WHEN ` + archivedDay + ` > coalesce(` + collectedDay + `, ` + noDay + `) THEN s.last_day ELSE ` + collectedDay + ` END)
		` + withArchives + ` WHERE ` + isKept
	furthestArchives = selectArchivable + `WHERE p.id IN (
		SELECT id FROM (
			SELECT p.id, p.name_order, s.failures, ` + isKept + ` AS kept,
				` + archivedDay + ` AS archived, coalesce(` + collectedDay + `, ` + noDay + `) AS collected
			` + withArchives + `) days
		ORDER BY CASE WHEN NOT kept OR archived >= @anchor OR collected >= @anchor THEN @anchor
			WHEN archived > collected THEN archived ELSE collected END, ` + failingFirst + `, name_order
		LIMIT @most)` + byName

	withIndexes  = "FROM properties p LEFT JOIN index_states s ON s.property_id = p.id"
	countIndexes = `SELECT count(*),
			0,
			count(CASE WHEN coalesce(s.refreshed_at, p.created_at) <= @added_late THEN 1 END),
			count(CASE WHEN s.failures > 0 THEN 1 END),
			(SELECT count(*) FROM properties),
			(SELECT max(refreshed_at) FROM index_states),
			CAST(NULL AS BIGINT)
		` + withIndexes + ` WHERE ` + isKept
	furthestIndexes = selectInspectable + `WHERE p.id IN (
		SELECT id FROM (
			SELECT p.id, p.name_order, s.failures, ` + isKept + ` AS kept,
				(CAST(@now AS BIGINT) - coalesce(s.refreshed_at, -86400000000000)) / 86400000 AS days
			` + withIndexes + `) ages
		ORDER BY CASE WHEN kept THEN days ELSE 0 END DESC, ` + failingFirst + `, name_order
		LIMIT @most)` + byName
)

// ArchiveOverview returns how far the archives of all properties are behind the anchor of q.Now. The counts are exact. Oldest and the
// choice of First use today's UTC offset for all runs: a run within an hour of midnight before the clocks changed may count for the
// next or the previous day.
func (s *Store) ArchiveOverview(ctx context.Context, calendar translate.Calendar, q OverviewQuery) (o Overview[ArchivableProperty], err error) {
	defer wrap(&err, "count the archives that are behind")
	today, anchor := calendar.Day(q.Now), calendar.Anchor(q.Now)
	started := calendar.Start(today)
	values := q.values()
	values["today"] = started.UnixMilli()
	values["in_time"] = calendar.Start(today - translate.Date(q.LateDays) + 1).UnixMilli()
	values["anchor"], values["late_day"] = anchor, anchor-translate.Date(q.LateDays)
	values["day_zero"] = started.UnixMilli() - int64(anchor)*(24*time.Hour).Milliseconds()
	if o.OverviewCounts, err = one(ctx, s.overview, scanOverviewCounts, countArchives, values); err == nil && q.Most > 0 {
		o.First, err = all(ctx, s.overview, scanArchivable, furthestArchives, values)
	}
	return o, err
}

// IndexOverview returns how old the index coverage of all properties is.
func (s *Store) IndexOverview(ctx context.Context, q OverviewQuery) (o Overview[InspectableProperty], err error) {
	defer wrap(&err, "count the properties whose index coverage is old")
	values := q.values()
	if o.OverviewCounts, err = one(ctx, s.overview, scanOverviewCounts, countIndexes, values); err == nil && q.Most > 0 {
		o.First, err = all(ctx, s.overview, scanInspectable, furthestIndexes, values)
	}
	return o, err
}

// values returns the parameters that both overviews have.
func (q OverviewQuery) values() named {
	const noPlan = "" // not the name of any plan: a list has one text at least
	return named{
		"plans": append([]string{noPlan}, slices.Sorted(slices.Values(q.Plans))...),
		"now":   q.Now.UnixMilli(),
		// Up to when a property must have been added to count as late if it has nothing.
		"added_late": q.Now.Add(-time.Duration(q.LateDays) * 24 * time.Hour).UnixMilli(),
		"most":       q.Most,
	}
}

func scanOverviewCounts(row scanner, c *OverviewCounts) error {
	var total int
	err := row.Scan(&c.Properties, &c.Complete, &c.Late, &c.Failing, &total, optionalInstant{&c.Newest}, &c.Oldest)
	c.Left = total - c.Properties
	return err
}

// Outages counts the connections that fail.
type Outages struct {
	Connections int // all
	Total       int // those that fail
	First       []Outage
}

// An Outage is an unhealthy connection.
type Outage struct {
	Connection
	Since *time.Time // nil if it was not recorded
}

// Outages returns the first most unhealthy connections, the longest outage first, and their number.
func (s *Store) Outages(ctx context.Context, most int) (o Outages, err error) {
	defer wrap(&err, "list the unhealthy connections")
	scan := func(row scanner, o *Outages) error { return row.Scan(&o.Connections, &o.Total) }
	o, err = one(ctx, s.overview, scan, "SELECT count(*), count(CASE WHEN NOT healthy THEN 1 END) FROM connections")
	if err == nil && most > 0 {
		o.First, err = all(ctx, s.overview, func(row scanner, o *Outage) error {
			return scanConnection(joined{row, []any{optionalInstant{&o.Since}}}, &o.Connection)
		}, "SELECT "+connectionColumns+", c.unhealthy_since"+fromConnections+
			"WHERE NOT c.healthy ORDER BY coalesce(c.unhealthy_since, 0), c.id LIMIT $1", most)
	}
	return o, err
}

// AccountsAfter returns the first most accounts whose ID is greater than after, ordered by ID.
func (s *Store) AccountsAfter(ctx context.Context, after string, most int) (_ []Account, err error) {
	defer wrap(&err, "list accounts")
	return all(ctx, s.overview, scanAccount, "SELECT "+accountColumns+" FROM accounts WHERE id > $1 ORDER BY id LIMIT $2", after, most)
}

// A SiteOfProperty is the part of a property that readers of counters need.
type SiteOfProperty struct{ ID, Site string }

// SitesAfter returns the first most properties after a site and id, ordered by site and id.
func (s *Store) SitesAfter(ctx context.Context, after SiteOfProperty, most int) (_ []SiteOfProperty, err error) {
	defer wrap(&err, "list the sites of properties")
	scan := func(row scanner, p *SiteOfProperty) error { return row.Scan(&p.ID, &p.Site) }
	return all(ctx, s.overview, scan, "SELECT id, site FROM properties WHERE site >= $1 AND (site > $1 OR id > $2) ORDER BY site, id LIMIT $3",
		after.Site, after.ID, most)
}
