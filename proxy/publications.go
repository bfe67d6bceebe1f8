package proxy

import (
	"fmt"
	"slices"
	"time"

	"sara/policy/lru"
	"sara/translate"
)

const (
	// maxPublications bounds the properties whose last published day is kept.
	maxPublications = 20_000
	// readTogether is the time within which two reads, such as those of one page of a dashboard, count as simultaneous: the upstream
	// publishes a day once a day, and too seldom in between for a note.
	readTogether = time.Minute
)

// publications remembers the last day with figures of each property, and since when it is known to be published. It is safe for concurrent
// use.
type publications struct {
	last *lru.Cache[string, publication]
}

// A publication is a day, and the earliest instant known at which it was published.
type publication struct {
	day translate.Date
	by  time.Time
}

func newPublications() *publications {
	return &publications{last: lru.New[string](lru.Config[publication]{Weight: maxPublications})}
}

// by records that a day was the last one with figures of a property at an instant, and returns the earliest such instant known.
func (p *publications) by(property string, day translate.Date, at time.Time) time.Time {
	known, ok := p.last.Get(property)
	if ok && known.day == day && !at.Before(known.by) {
		return known.by
	}
	p.last.Put(property, publication{day, at})
	return at
}

// noteOnAge returns a note if rows were read before the last day of the series was known to be published: they may lack that day, which the
// answer counts as known.
func (s *reportServer) noteOnAge(m *material) string {
	_, last, ok := m.known.Bounds()
	asked := translate.DateRange{Start: last, End: last}
	if !ok || !m.usesCopy() || !slices.ContainsFunc(m.call.params.Covered(), asked.Overlaps) {
		return ""
	}
	by := s.published.by(m.call.property.ID, last, m.known.at)
	for i, f := range m.found {
		if f.Entry == nil || m.fetches[i].Upstream.Range.End < last || by.Sub(f.Entry.Filled()) <= readTogether ||
			m.fetches[i].Shows(f.Entry.Rows(), last) {
			continue
		}
		return fmt.Sprintf("These figures were read at %s: days up to %s that Search Console has published since, if any, are missing in them.",
			timestamp(f.Entry.Filled()), last)
	}
	return ""
}
