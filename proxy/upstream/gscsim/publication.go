package gscsim

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync"
)

// Publication defines when the days of a site can be queried, and how an answer shows days without figures. The zero value publishes
// a day two days later, and keeps it for the retention.
type Publication struct {
	// Lag is how many days before today the last published day is; zero means two.
	Lag int
	// LagSpread makes the lag irregular: each day it is longer by zero to LagSpread days, drawn from the seed, the site
	// and the day. A published day stays published.
	LagSpread int
	// LostDays is how many days at the start of the retention the site no longer has.
	LostDays int
	// EmptyDays selects which days without figures have a row of zeros in an answer grouped by date alone.
	EmptyDays EmptyDays
}

// EmptyDays selects which days without figures have a row of zeros. Search Console shows all three forms.
type EmptyDays int

const (
	EmptyPublished   EmptyDays = iota // those up to the last published day
	EmptyUnpublished                  // those up to two days before today, published or not
	EmptyOmitted                      // none
)

// usualLag is how many days before today the last published day is by default.
const usualLag = 2

// extent is the range of a site's data that exists at an instant.
type extent struct {
	clock
	first      day  // the oldest day kept
	final      day  // the last published day
	listed     day  // the last day that has a row even without figures
	omitsEmpty bool // days without figures have no row
}

func (s *Server) extent(site Site) extent {
	p := site.Publication
	e := extent{clock: s.clock(), omitsEmpty: p.EmptyDays == EmptyOmitted}
	e.first = (e.today - usualLag).monthsBefore(s.config.RetentionMonths) + 1 + day(p.LostDays)
	e.final = s.lastPublished(site, e.today)
	e.listed = e.final
	if p.EmptyDays == EmptyUnpublished {
		e.listed = max(e.final, e.today-usualLag)
	}
	return e
}

// span returns the part of the requested range that has data.
func (e *evaluation) span() (from, to day) {
	from, to = max(e.from, e.extent.first), e.extent.final
	switch e.state {
	case finalData:
		if e.listsDays() {
			to = max(to, e.extent.listed)
		}
	case allData:
		to = e.extent.today
	case hourlyData:
		from, to = max(from, e.extent.today-9), e.extent.today
	}
	return from, min(to, e.to)
}

// listsDays reports whether the answer is grouped by date alone, so days without figures can have rows.
func (e *evaluation) listsDays() bool { return len(e.dimensions) == 1 && e.dimensions[0] == byDate }

// lastPublished returns the last published day of a site.
func (s *Server) lastPublished(site Site, today day) day {
	if last, ok := s.control.published.get(site.URL); ok {
		return last
	}
	p := site.Publication
	p.Lag = cmp.Or(p.Lag, usualLag)
	seed := hashText(s.config.Seed, site.URL)
	last := day(math.MinInt)
	for d := today - day(p.LagSpread); d <= today; d++ {
		late := hash(seed, 0x1a7e, uint64(d)) % uint64(p.LagSpread+1)
		last = max(last, d-day(p.Lag)-day(late))
	}
	return last
}

// SetPublished sets the last published day of a site, YYYY-MM-DD; an empty one restores the site's Publication.
func (s *Server) SetPublished(siteURL, lastDay string) error {
	if _, ok := s.anySite(siteURL); !ok {
		return fmt.Errorf("no user has the site %q", siteURL)
	}
	if lastDay == "" {
		s.control.published.reset(siteURL)
		return nil
	}
	last, ok := parseDay(lastDay)
	if !ok {
		return fmt.Errorf("last_day %q is not a date", lastDay)
	}
	s.control.published.set(siteURL, last)
	return nil
}

// publishedDays are the last published days that were set, by site. The zero value has none.
type publishedDays struct {
	mu   sync.Mutex
	last map[string]day // guarded by mu
}

func (p *publishedDays) get(siteURL string) (day, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[siteURL]
	return last, ok
}

func (p *publishedDays) set(siteURL string, last day) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]day{}
	}
	p.last[siteURL] = last
}

func (p *publishedDays) reset(siteURL string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, siteURL)
}

// traffic determines which days of a site have traffic.
type traffic struct {
	first    day
	quiet    map[day]bool
	oneDayIn uint64
}

// traffic returns which days of the key's site have traffic.
func (key worldKey) traffic() traffic {
	return mustTraffic(Site{URL: key.url, FirstDay: key.firstDay, QuietDays: strings.Fields(key.quietDays), OneDayIn: key.oneDayIn})
}

func mustTraffic(site Site) traffic {
	t := traffic{first: math.MinInt, oneDayIn: uint64(max(1, site.OneDayIn)), quiet: make(map[day]bool, len(site.QuietDays))}
	if site.FirstDay != "" {
		t.first = mustDay(site, "FirstDay", site.FirstDay)
	}
	for _, text := range site.QuietDays {
		t.quiet[mustDay(site, "a QuietDay", text)] = true
	}
	return t
}

func mustDay(site Site, name, text string) day {
	d, ok := parseDay(text)
	if !ok {
		panic("gscsim: " + name + " of " + site.URL + " is not a date: " + text)
	}
	return d
}

func (w *world) hasTraffic(d day) bool {
	t := &w.traffic
	return d >= t.first && !t.quiet[d] && (t.oneDayIn == 1 || hash(w.seed, 0x5da7, uint64(d))%t.oneDayIn == 0)
}
