package command

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"sara/archive"
	"sara/cmd/sara/internal/console"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/schedule"
	"sara/translate"
)

type archivePlan struct {
	console.Output
	Properties    int `default:"10000" placeholder:"N" help:"Number of properties; default: ${default}."`
	HistoryMonths int `default:"60" placeholder:"M" help:"Months of history to keep, of which Search Console has the last 16; default: ${default}."`
}

// Validate implements kong's check of a command line.
func (c *archivePlan) Validate() error {
	const mostProperties, mostMonths = 10_000_000, 1200
	switch {
	case c.Properties < 1 || c.Properties > mostProperties:
		return fmt.Errorf("--properties %d is not a number of 1 to %d", c.Properties, mostProperties)
	case c.HistoryMonths < 1 || c.HistoryMonths > mostMonths:
		return fmt.Errorf("--history-months %d is not a number of 1 to %d", c.HistoryMonths, mostMonths)
	}
	return nil
}

func (c *archivePlan) Run(con *console.Console) error {
	lines := planArchive(c.Properties, c.HistoryMonths)
	if c.JSON {
		return console.PrintJSON(con.Stdout, archivePlanRecord{c.Properties, c.HistoryMonths, lines})
	}
	return console.Many(c.Output, con.Stdout, lines)
}

type archivePlanRecord struct {
	Properties    int        `json:"properties"`
	HistoryMonths int        `json:"history_months"`
	Needs         []planLine `json:"needs"`
}

// A planLine is one figure of the estimate.
type planLine struct {
	When    string `json:"when"` // day, backfill or storage
	Name    string `json:"name"`
	Value   int64  `json:"value"` // rounded up
	Unit    string `json:"unit"`  // calls, min, puts or bytes
	Formula string `json:"formula"`
}

func (l planLine) Columns() []console.Column {
	value := humanize.Comma(l.Value) + " " + l.Unit
	if l.Unit == "bytes" {
		value = humanize.IBytes(uint64(l.Value))
	}
	return []console.Column{{"WHEN", l.When}, {"WHAT", l.Name}, {"NEEDS", value}, {"FORMULA", l.Formula}}
}

// The upstream's limits a minute.
const (
	upstreamPerSite    = 1_200
	upstreamPerUser    = 1_200
	upstreamPerProject = 40_000
)

// Assumptions of the estimate.
const (
	daysInMonth = 365.25 / 12
	// dailyDays are collected every day: the provisional ones, and the one that has just become final. Days without traffic can make it
	// more days, but take one call each instead of one for each dimension, so such a site needs no more calls than the estimate.
	dailyDays = collector.ProvisionalDays + 1
	// assumedCall is the latency of an upstream call, in seconds.
	assumedCall = 0.25
	// propertyMonth is the size of a stored month, in bytes, measured with 264 rows a day.
	propertyMonth = 128 << 10
)

// planArchive estimates an archive of properties that keeps months.
func planArchive(properties, months int) []planLine {
	queries := 0
	for _, by := range archive.Dimensions() {
		if by != translate.ByDate { // one series query has the totals of all days
			queries++
		}
	}
	daily, dailyFormula := dailyDays*queries+1, fmt.Sprintf("(%d days x %d + 1 series)", dailyDays, queries)
	fetched := min(months, translate.UpstreamMonths)
	days := int(math.Ceil(float64(fetched) * daysInMonth))
	backfill, backfillFormula := days*queries+1, fmt.Sprintf("(%d days x %d + 1 series)", days, queries)
	writes := int(math.Ceil(31. / collector.DefaultFlushDays))
	of := planned(properties, "property")

	lines := callLines("day", properties, daily, dailyFormula)
	lines = append(lines, planLine{"day", "writes of objects", int64(properties), "puts",
		of + " x 1 month (2 at the turn of a month)"})
	lines = append(lines, callLines("backfill", properties, backfill, backfillFormula)...)
	return append(lines,
		planLine{"backfill", "writes of objects", int64(properties) * int64(fetched) * int64(writes), "puts",
			fmt.Sprintf("%s x %s x %d (one for each %d days)", of, planned(fetched, "month"), writes, collector.DefaultFlushDays)},
		planLine{"storage", "one month of one property", propertyMonth, "bytes", "measured, with 264 rows a day"},
		planLine{"storage", "after the backfill", int64(properties) * int64(fetched) * propertyMonth, "bytes",
			fmt.Sprintf("%s x %s x %s", of, planned(fetched, "month"), humanize.IBytes(propertyMonth))},
		planLine{"storage", "when all months are there", int64(properties) * int64(months) * propertyMonth, "bytes",
			fmt.Sprintf("%s x %s x %s", of, planned(months, "month"), humanize.IBytes(propertyMonth))})
}

// callLines estimates the upstream calls of all properties, with each calls per property, and their duration.
func callLines(when string, properties, each int, formula string) []planLine {
	calls := int64(properties) * int64(each)
	lines := []planLine{{when, "upstream calls", calls, "calls", planned(properties, "property") + " x " + formula}}
	for _, limit := range []struct {
		name, per       string
		calls           int64
		share, upstream int
	}{
		{"one property, at its site's limit", "site", int64(each), collector.DefaultPerSite, upstreamPerSite},
		{"if one connection reads all", "connection", calls, collector.DefaultPerConnection, upstreamPerUser},
		{"all, at the project's limit", "project", calls, schedule.DefaultTotal, upstreamPerProject},
	} {
		lines = append(lines, planLine{when, limit.name, minutes(limit.calls, float64(limit.share)), "min",
			fmt.Sprintf("%d calls / %d a minute, the collector's share of a %s's %d (alone: %d min)", limit.calls, limit.share,
				limit.per, limit.upstream, minutes(limit.calls, float64(limit.upstream)))})
	}
	return append(lines, planLine{when, "all, one call after another", minutes(calls, collector.DefaultParallel*60/assumedCall), "min",
		fmt.Sprintf("%d calls x %v s (assumed) / %d properties at a time", calls, assumedCall, collector.DefaultParallel)})
}

// planned writes a number of things as the formulas do, without commas.
func planned(n int, thing string) string {
	return strconv.Itoa(n) + " " + english.PluralWord(n, thing, "")
}

func minutes(calls int64, perMinute float64) int64 {
	return int64(math.Ceil(float64(calls) / perMinute))
}
