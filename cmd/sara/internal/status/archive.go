package status

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
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
	Properties []ArchiveLag  `json:"properties"` // the most behind first
	Problem    *string       `json:"problem"`
}

type ArchiveCounts struct {
	Properties int `json:"properties"` // that are collected
	Complete   int `json:"complete"`
	Late       int `json:"late"` // two days behind, or more
	Failing    int `json:"failing"`
	Left       int `json:"not_collected"` // archived, or of a plan that keeps no history
}

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
	late             bool
}

// properties returns all properties.
func (v view) properties(ctx context.Context) ([]sqlstore.ArchivableProperty, error) {
	if v.store == nil {
		return nil, errNoDatabase
	}
	return v.store.ArchivableProperties(ctx)
}

// archive reports how far the archive of each property is behind; err is why the properties could not be read.
func (v view) archive(properties []sqlstore.ArchivableProperty, err error) Archive {
	anchor := v.calendar.Anchor(v.now)
	s := Archive{Anchor: anchor.String(), Properties: make([]ArchiveLag, len(properties)), Problem: problem(err)}
	for i, p := range properties {
		lag := v.archiveLag(p, anchor)
		s.Properties[i] = lag
		if lag.State == "not_collected" {
			s.Counts.Left++
			continue
		}
		s.Counts.Properties++
		s.Counts.Complete += count(lag.State == "complete")
		s.Counts.Failing += count(lag.Failures > 0)
		s.Counts.Late += count(lag.late)
	}
	worstFirst(s.Properties, func(l ArchiveLag) *int {
		if l.State == "not_collected" {
			return new(int)
		}
		return l.LagDays
	})
	return s
}

func (v view) archiveLag(p sqlstore.ArchivableProperty, anchor translate.Date) ArchiveLag {
	lag := ArchiveLag{ID: p.ID, GSCProperty: p.Site, State: "behind", LastArchivedDate: console.OptionalDate(p.State.Last),
		CollectedAt: console.OptionalTime(p.State.CollectedAt), RestsUntil: v.cooldownEnd(p.State.CooldownUntil), Failures: p.State.Failures, Note: p.State.Note}
	if lag.Note == "" {
		lag.Note = unreadable(p.Property)
	}
	upTo, whole := p.State.Last, false
	if at := p.State.CollectedAt; at != nil {
		day := v.calendar.Anchor(*at)
		whole = day >= anchor
		if upTo == nil || day > *upTo {
			upTo = &day
		}
	}
	if upTo != nil {
		days := max(0, int(anchor-*upTo))
		lag.LagDays = &days
	}
	switch {
	case p.Archived || v.plans[p.Plan].RetentionMonths <= 0:
		lag.State = "not_collected"
		return lag
	case lag.LagDays == nil:
		lag.State = "never"
		lag.late = v.older(p.CreatedAt, lateDays)
		return lag
	case *lag.LagDays == 0 && whole:
		lag.State = "complete"
	case *lag.LagDays == 0:
		lag.State = "incomplete" // a part was collected by hand, or imported
	}
	lag.late = *lag.LagDays >= lateDays
	return lag
}

// unreadable returns why a property cannot be read now, empty if it can.
func unreadable(p sqlstore.Property) string {
	if !p.Connection.Healthy {
		return p.Connection.Note
	}
	return p.AccessNote
}

// older reports whether an instant is at least that many days ago.
func (v view) older(t time.Time, days int) bool {
	return v.now.Sub(t) >= time.Duration(days)*24*time.Hour
}

// cooldownEnd returns the end of a site's cooldown, null if it has none.
func (v view) cooldownEnd(until *time.Time) *string {
	if until == nil || !until.After(v.now) {
		return nil
	}
	return console.OptionalTime(until)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Indexing shows how old the index coverage is.
type Indexing struct {
	Counts     IndexingCounts `json:"counts"`
	Properties []IndexingLag  `json:"properties"` // the oldest first
	Problem    *string        `json:"problem"`
}

type IndexingCounts struct {
	Properties int `json:"properties"` // that are inspected
	Late       int `json:"late"`       // seven days old, or older
	Failing    int `json:"failing"`
	Left       int `json:"not_inspected"` // archived, or of a plan that inspects nothing
}

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

func (v view) indexing(ctx context.Context) Indexing {
	s := Indexing{Properties: []IndexingLag{}}
	if v.store == nil {
		s.Problem = problem(errNoDatabase)
		return s
	}
	properties, err := v.store.InspectableProperties(ctx)
	s.Problem = problem(err)
	for _, p := range properties {
		lag, late := v.indexingLag(p)
		s.Properties = append(s.Properties, lag)
		if lag.State == "not_inspected" {
			s.Counts.Left++
			continue
		}
		s.Counts.Properties++
		s.Counts.Failing += count(lag.Failures > 0)
		s.Counts.Late += count(late)
	}
	worstFirst(s.Properties, func(l IndexingLag) *int {
		if l.State == "not_inspected" {
			return new(int)
		}
		return l.AgeDays
	})
	return s
}

func (v view) indexingLag(p sqlstore.InspectableProperty) (lag IndexingLag, late bool) {
	lag = IndexingLag{ID: p.ID, GSCProperty: p.Site, State: "fresh", URLs: p.Index.URLs, RefreshedAt: console.OptionalTime(p.Index.RefreshedAt),
		RestsUntil: v.cooldownEnd(p.Index.CooldownUntil), Failures: p.Index.Failures, Note: p.Index.Note}
	if at := p.Index.RefreshedAt; at != nil {
		days := int(v.now.Sub(*at).Hours() / 24)
		lag.AgeDays = &days
	}
	switch {
	case p.Archived || v.plans[p.Plan].InspectedURLsPerProperty <= 0:
		lag.State = "not_inspected"
	case lag.AgeDays == nil:
		lag.State, late = "never", v.older(p.CreatedAt, staleDays)
	case *lag.AgeDays >= staleDays:
		lag.State, late = "old", true
	}
	return lag, late
}
