package proxy

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"sara/archive"
	"sara/archive/bucket"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// kept returns an archive in a folder of the test, and the configuration of a server that reads it.
func kept(t testing.TB) (*archive.History, func(*Config)) {
	t.Helper()
	return keptIn(t, t.TempDir())
}

func keptIn(t testing.TB, location string) (*archive.History, func(*Config)) {
	t.Helper()
	store, err := bucket.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	history, err := archive.NewHistory(archive.HistoryConfig{Bucket: store})
	if err != nil {
		t.Fatal(err)
	}
	return history, func(c *Config) { c.Reports.History = history }
}

// elder is an oracle that still has the days that the upstream no longer keeps.
func (w *world) elder() *oracle {
	w.t.Helper()
	o := w.oracle()
	o.sim = gscsim.New(gscsim.Config{Seed: 1, Now: w.now, Users: users(), Worlds: &theWorlds, RetentionMonths: 60,
		Quotas: gscsim.Quotas{SearchPerMinute: -1}})
	o.token = tokenOf(w.t, o.sim)
	return o
}

// A chronicle is the archive of a site, together with the plain rows that it was filled with.
type chronicle struct {
	w        *world
	o        *oracle
	site     string
	property string
	history  *archive.History
	days     map[string]map[translate.Date][]figure // by dimension
}

func (w *world) chronicle(history *archive.History, property, site string) *chronicle {
	return &chronicle{w: w, o: w.elder(), site: site, property: property, history: history, days: map[string]map[translate.Date][]figure{}}
}

// keep archives the days from first to last.
func (c *chronicle) keep(t testing.TB, first, last string) {
	t.Helper()
	var days []archive.Day
	for day := *dateOf(t, first); day <= *dateOf(t, last); day++ {
		for by, dimension := range map[string]translate.Dimension{"date": translate.ByDate, "query": translate.ByQuery, "page": translate.ByPage,
			"country": translate.ByCountry, "device": translate.ByDevice} {
			limit := 1000 // more than there are
			if dimension == translate.ByQuery || dimension == translate.ByPage {
				limit = archive.TopRows
			}
			rows := c.o.ask(t, c.site, by, day.String(), day.String(), limit)
			if c.days[by] == nil {
				c.days[by] = map[translate.Date][]figure{}
			}
			c.days[by][day] = rows
			days = append(days, archive.Day{Date: day, Dimension: dimension, Final: true, Rows: rowsOf(rows)})
		}
	}
	c.w.must(c.history.Merge(context.Background(), c.w.properties[c.property].ID, days))
}

func rowsOf(figures []figure) *translate.Rows {
	var b translate.RowsBuilder
	for _, f := range figures {
		b.Add([]byte(f.Keys[0]), translate.Metrics{Clicks: int64(f.Clicks), Impressions: int64(f.Impressions), CTR: f.CTR, Position: f.Position})
	}
	return b.Rows()
}

// want is the expected answer for a range: the archived rows of archived days, and the upstream's rows of the rest of the live
// window.
func (c *chronicle) want(t testing.TB, by, start, end, live string) []figure {
	t.Helper()
	sums := map[string]*figure{}
	add := func(rows []figure) {
		for _, row := range rows {
			sum := sums[row.Keys[0]]
			if sum == nil {
				sum = &figure{Keys: row.Keys}
				sums[row.Keys[0]] = sum
			}
			sum.Clicks += row.Clicks
			sum.Impressions += row.Impressions
			sum.Position += row.Position * row.Impressions
		}
	}
	for day := *dateOf(t, start); day <= *dateOf(t, end) && day < *dateOf(t, live); day++ {
		add(c.days[by][day])
	}
	if end >= live {
		add(c.o.ask(t, c.site, by, max(start, live), end, 25000))
	}
	rows := make([]figure, 0, len(sums))
	for _, sum := range sums {
		if sum.Impressions > 0 {
			sum.CTR = sum.Clicks / sum.Impressions
			sum.Position /= sum.Impressions
		}
		rows = append(rows, *sum)
	}
	slices.SortFunc(rows, func(a, b figure) int {
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.Keys[0], b.Keys[0]))
	})
	return rows
}

// total returns the totals of a range.
func (c *chronicle) total(t testing.TB, start, end, live string) (sum figure) {
	t.Helper()
	for _, day := range c.want(t, "date", start, end, live) {
		sum.Clicks += day.Clicks
		sum.Impressions += day.Impressions
		sum.Position += day.Position * day.Impressions
	}
	if sum.Impressions > 0 {
		sum.CTR = sum.Clicks / sum.Impressions
		sum.Position /= sum.Impressions
	}
	return sum
}

const (
	liveFrom = "2025-07-20" // the first day of the live window of every world
	never    = "9999-01-01"
)
