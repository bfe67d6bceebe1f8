package translate

import (
	"slices"
	"strconv"
	"strings"
)

// Parameters with rules of their own.
const (
	paramDateRange = "date_range"
	paramFilters   = "filters"
	paramMinClicks = "min_clicks" // of the movers only
)

// The spec's parameter bounds (Limits 7).
const (
	maxDimensionLimit  = 1000
	maxMoversLimit     = 50
	maxPropertiesLimit = 200
	maxURLsLimit       = 500
	maxPortfolioLimit  = 200
)

// An Endpoint declares the parameters of one endpoint for Parse. The zero value has none.
type Endpoint struct {
	Params  []Param
	Compare Comparison // that the response always has
}

func dateParams() []Param {
	preset := choice(paramDateRange, DefaultPreset, Presets(), "Relative range, ending at the anchor: two days before today, "+
		"in Pacific time.", func(p *Params, s string) { p.preset = s })
	return append([]Param{preset}, dates("First day of an exact range; goes with end_date.",
		"Last day of an exact range; a day after the anchor is moved back to it, with a note.")...)
}

// dates declares a first and a last day, by their descriptions.
func dates(first, last string) []Param {
	return []Param{
		date("start_date", first, func(p *Params, d Date) { p.From = &d }),
		date("end_date", last, func(p *Params, d Date) { p.To = &d }),
	}
}

// page declares which rows of a list to return: usual and most are the default and the bound of their number.
func page(usual, most int) []Param {
	return []Param{
		integer("limit", usual, 1, most, "Most rows to return.", func(p *Params, n int) { p.Limit = n }),
		integer("offset", 0, 0, 0, "Rows to skip.", func(p *Params, n int) { p.Offset = n }),
	}
}

// performanceParams are the spec's shared performance parameters.
func performanceParams() []Param {
	return append(dateParams(), Param{Name: paramFilters, Kind: KindFilters,
		Description: "URL-encoded JSON array of filters, which must all match. Filtered figures are always live.",
		read: func(p *Params, s string) (err error) {
			p.Filters, err = ParseFilters(strings.Clone(s))
			p.Notes = append(append(p.Notes, formNotes(p.Filters)...), filterNotes(p.Filters)...)
			return err
		}})
}

// Summary returns the parameters of /summary.
func Summary() Endpoint {
	return Endpoint{Params: append(performanceParams(), compareParam())}
}

func compareParam() Param {
	return choice("compare", compareNone, comparisons(), "previous_period adds the window of equal length right before the requested one, "+
		"previous_year the same dates a year before (February 28 for February 29).",
		func(p *Params, s string) { p.Compare = parseComparison(s) })
}

// Portfolio returns the parameters of /v1/portfolio.
func Portfolio() Endpoint {
	order := choice("order_by", DefaultOrder, portfolioOrders(),
		"What to sort by; a leading minus sorts in descending order. Ties are in the order of the names, "+
			"and properties without figures come last, in either direction.", func(p *Params, s string) { p.Order = parseOrder(s) })
	return Endpoint{Params: slices.Concat(dateParams(), []Param{compareParam(), order}, page(50, maxPortfolioLimit))}
}

// Timeseries returns the parameters of /timeseries.
func Timeseries() Endpoint { return Endpoint{Params: performanceParams()} }

// Breakdown returns the parameters of /queries, /pages, /countries and /devices.
func Breakdown() Endpoint {
	return Endpoint{Params: append(performanceParams(),
		integer("limit", 100, 1, maxDimensionLimit, "Most rows to return.", func(p *Params, n int) { p.Limit = n }),
		integer("offset", 0, 0, WideSample-1, "Rows to skip. The pages of a table, one after the other, are the whole table, of up to 25,000 rows. "+
			"A page that reaches beyond the first 1,000 rows reads a wider sample first.", func(p *Params, n int) { p.Offset = n }).extended(),
		choice("order_by", DefaultOrder, Orders(), "Metric or key to sort by; a leading minus sorts in descending order. Ties are in "+
			"ascending key order. Any order but the default reads a wider sample first.",
			func(p *Params, s string) { p.Order = parseOrder(s) }))}
}

// Movers returns the parameters of /movers/queries and /movers/pages.
func Movers() Endpoint {
	return Endpoint{Compare: PreviousPeriod, Params: append(dateParams(),
		integer("limit", 10, 1, maxMoversLimit, "Most rows in each of the two lists.", func(p *Params, n int) { p.Limit = n }),
		integer(paramMinClicks, 0, 0, 0, "Leave out keys whose clicks stay below this in both periods.",
			func(p *Params, n int) { p.MinClicks = n }))}
}

// Properties returns the parameters of /v1/properties.
func Properties() Endpoint {
	return Endpoint{Params: append(page(50, maxPropertiesLimit),
		boolean("include_archived", "List archived properties too.", func(p *Params, b bool) { p.IncludeArchived = b }))}
}

// Annotations returns the parameters of /annotations.
func Annotations() Endpoint {
	return Endpoint{Params: dates("First day to list.", "Last day to list.")}
}

// KnownEvents returns the parameters of /v1/anomalies.
func KnownEvents() Endpoint {
	return Endpoint{Params: dates("Only events that had not ended before this day.", "Only events that began by this day.")}
}

// Indexing returns the parameters of /indexing.
func Indexing() Endpoint {
	days := []string{"30", "90", "365"}
	return Endpoint{Params: []Param{
		choice("days", "90", days, "How many days the trend goes back.", func(p *Params, s string) {
			p.TrendDays, _ = strconv.Atoi(s) // never fails for these choices
		}).as(KindInteger),
		boolean("include_trend", "Add the daily course of the counts.", func(p *Params, b bool) { p.IncludeTrend = b }),
	}}
}

// URLOrders returns every value of sort of /indexing/urls.
func URLOrders() []string {
	return []string{"importance", "url", "last_crawl_time", "last_inspected_at"}
}

// IndexedURLs returns the parameters of /indexing/urls.
func IndexedURLs() Endpoint {
	names := make([]string, 0, len(Buckets()))
	for _, b := range Buckets() {
		names = append(names, b.String())
	}
	return Endpoint{Params: append([]Param{
		choice("bucket", "", names, "Only URLs of this bucket.", func(p *Params, s string) { p.Bucket = parseBucket(s) }),
		text("coverage_state", "Only URLs with this label of Search Console, exactly as the breakdown of /indexing shows it.",
			func(p *Params, s string) { p.CoverageState = s }),
		text("sitemap_path", "Only URLs that this sitemap lists, by itself or through a sitemap that it names.",
			func(p *Params, s string) { p.SitemapPath = s }),
		text("q", "Only URLs that contain this text (case-insensitive). No character is a wildcard.",
			func(p *Params, s string) { p.Contains = s }),
		choice("sort", "importance", URLOrders(), "What to sort by; importance is search traffic. Ties are in ascending order of the "+
			"URL, and URLs without a value come last, in either direction.", func(p *Params, s string) { p.Order.By = s }),
		choice("dir", "desc", []string{"asc", "desc"}, "The direction.", func(p *Params, s string) { p.Order.Descending = s == "desc" }),
	}, page(100, maxURLsLimit)...)}
}
