package status

import (
	"cmp"
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/policy"
	"sara/proxy/jobs/schedule"
	"sara/translate"
)

const (
	lateDays  = 2 // two days behind means that a daily run missed the property
	staleDays = 7 // index coverage of that age; large sites take days to inspect
)

// Archive shows how far the archive is behind.
type Archive struct {
	Anchor     string        `json:"anchor"` // the last day that Search Console has complete figures of
	Counts     ArchiveCounts `json:"counts"`
	Properties []ArchiveLag  `json:"properties"` // the 20 that are most behind, the worst first; of those equally far, failing ones are chosen first
	Problem    *string       `json:"problem"`
}

// ArchiveCounts are numbers of properties.
type ArchiveCounts struct {
	Properties int `json:"properties"` // that are collected
	Complete   int `json:"complete"`
	Late       int `json:"late"` // two days behind, or more
	Failing    int `json:"failing"`
	Left       int `json:"not_collected"` // archived, or of a plan that keeps no history
}

// ArchiveLag is how far the archive of a property is behind.
type ArchiveLag struct {
	ID               string  `json:"id"`
	GSCProperty      string  `json:"gsc_property"`
	State            string  `json:"state"` // complete, incomplete (days may be missing before the last), behind, never, or not_collected
	LastArchivedDate *string `json:"last_archived_date"`
	LagDays          *int    `json:"lag_days"`     // up to the anchor that are not collected; null when none ever was
	CollectedAt      *string `json:"collected_at"` // start of the last run that completed it
	RestsUntil       *string `json:"rests_until"`
	Failures         int     `json:"failures"` // since the last successful run
	Note             string  `json:"note"`     // why the last run failed, or why the property cannot be read
}

// archive reports how many archives are behind, and names the worst of them.
func (v view) archive(ctx context.Context) (Archive, sqlstore.OverviewCounts, error) {
	anchor := v.calendar.Anchor(v.now)
	s := Archive{Anchor: anchor.String(), Properties: []ArchiveLag{}}
	if v.store == nil {
		return s, sqlstore.OverviewCounts{}, errNoDatabase
	}
	all, err := v.store.ArchiveOverview(ctx, v.calendar, sqlstore.OverviewQuery{Now: v.now, LateDays: lateDays, Most: shownRows,
		Plans: v.plansWith(func(p policy.Plan) bool { return p.RetentionMonths > 0 })})
	if err != nil {
		return s, all.OverviewCounts, err
	}
	s.Counts = ArchiveCounts{Properties: all.Properties, Complete: all.Complete, Late: all.Late, Failing: all.Failing, Left: all.Left}
	s.Properties = console.Each(all.First, func(p sqlstore.ArchivableProperty) ArchiveLag { return v.archiveLag(p, anchor) })
	worstFirst(s.Properties, func(l ArchiveLag) *int {
		if l.State == "not_collected" {
			return new(int)
		}
		return l.LagDays
	})
	return s, all.OverviewCounts, nil
}

// plansWith returns the names of the plans that have something.
func (v view) plansWith(has func(policy.Plan) bool) (names []string) {
	for name, plan := range v.plans {
		if has(plan) {
			names = append(names, name)
		}
	}
	return names
}

func (v view) archiveLag(p sqlstore.ArchivableProperty, anchor translate.Date) ArchiveLag {
	lag := ArchiveLag{ID: p.ID, GSCProperty: p.Site, State: "behind", LastArchivedDate: console.OptionalDate(p.State.Last),
		CollectedAt: console.OptionalTime(p.State.CollectedAt), RestsUntil: v.cooldownEnd(p.State.CooldownUntil), Failures: p.State.Failures,
		Note: cmp.Or(p.State.Note, p.AccessProblem())}
	upTo, whole := p.State.Last, false
	if at := p.State.CollectedAt; at != nil {
		day := v.calendar.Anchor(*at)
		whole = day >= anchor
		if upTo == nil || day > *upTo {
			upTo = &day
		}
	}
	if upTo != nil {
		lag.LagDays = new(max(0, int(anchor-*upTo)))
	}
	switch {
	case p.Archived || v.plans[p.Plan].RetentionMonths <= 0:
		lag.State = "not_collected"
	case lag.LagDays == nil:
		lag.State = "never"
	case *lag.LagDays == 0 && whole:
		lag.State = "complete"
	case *lag.LagDays == 0:
		lag.State = "incomplete" // a part was collected by hand, or imported
	}
	return lag
}

// cooldownEnd returns the end of a site's cooldown, null if it has none.
func (v view) cooldownEnd(until *time.Time) *string {
	if until == nil || !schedule.IsCooling(*until, v.now) {
		return nil
	}
	return console.OptionalTime(until)
}

// Indexing shows how old the index coverage is.
type Indexing struct {
	Counts     IndexingCounts `json:"counts"`
	Properties []IndexingLag  `json:"properties"` // the 20 that are oldest, the oldest first; of those equally old, failing ones are chosen first
	Problem    *string        `json:"problem"`
}

// IndexingCounts are numbers of properties.
type IndexingCounts struct {
	Properties int `json:"properties"` // that are inspected
	Late       int `json:"late"`       // seven days old, or older
	Failing    int `json:"failing"`
	Left       int `json:"not_inspected"` // archived, or of a plan that inspects nothing
}

// IndexingLag is how old the index coverage of a property is.
type IndexingLag struct {
	ID          string  `json:"id"`
	GSCProperty string  `json:"gsc_property"`
	State       string  `json:"state"` // fresh, old, never, or not_inspected
	URLs        int     `json:"urls"`
	RefreshedAt *string `json:"refreshed_at"` // when results were last published
	AgeDays     *int    `json:"age_days"`     // whole days since then; null for never
	RestsUntil  *string `json:"rests_until"`
	Failures    int     `json:"failures"`
	Note        string  `json:"note"`
}

// indexing reports how many properties have old index coverage, and names the worst of them.
func (v view) indexing(ctx context.Context) (Indexing, error) {
	s := Indexing{Properties: []IndexingLag{}}
	if v.store == nil {
		return s, errNoDatabase
	}
	all, err := v.store.IndexOverview(ctx, sqlstore.OverviewQuery{Now: v.now, LateDays: staleDays, Most: shownRows,
		Plans: v.plansWith(func(p policy.Plan) bool { return p.InspectedURLsPerProperty > 0 })})
	if err != nil {
		return s, err
	}
	s.Counts = IndexingCounts{Properties: all.Properties, Late: all.Late, Failing: all.Failing, Left: all.Left}
	s.Properties = console.Each(all.First, v.indexingLag)
	worstFirst(s.Properties, func(l IndexingLag) *int {
		if l.State == "not_inspected" {
			return new(int)
		}
		return l.AgeDays
	})
	return s, nil
}

func (v view) indexingLag(p sqlstore.InspectableProperty) IndexingLag {
	lag := IndexingLag{ID: p.ID, GSCProperty: p.Site, State: "fresh", URLs: p.Index.URLs, RefreshedAt: console.OptionalTime(p.Index.RefreshedAt),
		RestsUntil: v.cooldownEnd(p.Index.CooldownUntil), Failures: p.Index.Failures, Note: p.Index.Note}
	if at := p.Index.RefreshedAt; at != nil {
		lag.AgeDays = new(int(v.now.Sub(*at).Hours() / 24))
	}
	switch {
	case p.Archived || v.plans[p.Plan].InspectedURLsPerProperty <= 0:
		lag.State = "not_inspected"
	case lag.AgeDays == nil:
		lag.State = "never"
	case *lag.AgeDays >= staleDays:
		lag.State = "old"
	}
	return lag
}
