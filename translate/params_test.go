package translate

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// window is the Window of the tests of parameters.
func window() Window { return NewWindow(day("2026-06-13"), 36) }

func endpoints() map[string]Endpoint {
	return map[string]Endpoint{"bare": Endpoint{}, "summary": Summary(), "timeseries": Timeseries(), "breakdown": Breakdown(),
		"movers": Movers(), "properties": Properties(), "annotations": Annotations(), "known events": KnownEvents(), "portfolio": Portfolio(),
		"indexing": Indexing(), "indexed urls": IndexedURLs()}
}

// The endpoint table of the spec, a line an endpoint: name, kind, default, choices and bounds of each parameter.
func TestEndpointParametersMatchTheSpec(t *testing.T) {
	const (
		dates   = "date_range:string=last_28d start_date:date end_date:date"
		shared  = dates + " filters:filters"
		wantAll = "bare:\nsummary: " + shared + " compare:string=none{none,previous_period,previous_year}\n" +
			"timeseries: " + shared + "\n" +
			"breakdown: " + shared + " limit:integer=100[1,1000] offset:integer=0[0,24999] order_by:string=-clicks" +
			"{clicks,-clicks,impressions,-impressions,ctr,-ctr,position,-position,key,-key}\n" +
			"movers: " + dates + " limit:integer=10[1,50] min_clicks:integer=0[0,0]\n" +
			"properties: limit:integer=50[1,200] offset:integer=0[0,0] include_archived:boolean=false{true,false}\n" +
			"annotations: start_date:date end_date:date\nknown events: start_date:date end_date:date\n" +
			"portfolio: " + dates + " compare:string=none{none,previous_period,previous_year} order_by:string=-clicks" +
			"{clicks,-clicks,impressions,-impressions,ctr,-ctr,position,-position,name,-name,clicks_delta,-clicks_delta}" +
			" limit:integer=50[1,200] offset:integer=0[0,0]\n" +
			"indexing: days:integer=90{30,90,365} include_trend:boolean=false{true,false}\n" +
			"indexed urls: bucket:string{indexed,not_indexed,error,unknown} coverage_state:string(2048) sitemap_path:string(2048) q:string(2048)" +
			" sort:string=importance{importance,url,last_crawl_time,last_inspected_at} dir:string=desc{asc,desc}" +
			" limit:integer=100[1,500] offset:integer=0[0,0]\n"
	)
	presets := "{" + strings.Join(Presets(), ",") + "}"
	want := strings.ReplaceAll(wantAll, "=last_28d", "=last_28d"+presets)
	var got strings.Builder
	all := endpoints()
	for _, name := range []string{"bare", "summary", "timeseries", "breakdown", "movers", "properties", "annotations", "known events",
		"portfolio", "indexing", "indexed urls"} {
		got.WriteString(name + ":")
		for _, p := range all[name].Params {
			got.WriteString(" " + describe(p))
			if p.Description == "" {
				t.Errorf("%s: %s has no description", name, p.Name)
			}
		}
		got.WriteByte('\n')
	}
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
	wantPresets := "last_7d last_28d last_30d last_90d last_3m last_6m last_12m last_16m month_to_date previous_month year_to_date previous_year"
	if got := strings.Join(Presets(), " "); got != wantPresets {
		t.Errorf("presets: %s", got)
	}
}

func TestParseSetsDefaults(t *testing.T) {
	f := func(e Endpoint, query string, want Params) {
		t.Helper()
		got, err := Parse(e, []byte(query), window())
		if err != nil {
			t.Errorf("%s: %v", query, err)
			return
		}
		if summarise(got) != summarise(&want) {
			t.Errorf("%s:\n got %s\nwant %s", query, summarise(got), summarise(&want))
		}
	}
	period := Period{DateRange: DateRange{Start: day("2026-05-17"), End: day("2026-06-13")}, Preset: "last_28d"}
	byClicks := Order{By: "clicks", Descending: true}
	for _, query := range []string{"", "&", "&&&"} {
		f(Endpoint{}, query, Params{})
		f(Summary(), query, Params{Period: period})
		f(Timeseries(), query, Params{Period: period})
		f(Breakdown(), query, Params{Period: period, Limit: 100, Order: byClicks})
		f(Movers(), query, Params{Period: period, Limit: 10, Compare: PreviousPeriod})
		f(Properties(), query, Params{Limit: 50})
		f(Annotations(), query, Params{})
		f(Indexing(), query, Params{TrendDays: 90})
		f(IndexedURLs(), query, Params{Limit: 100, Order: Order{By: "importance", Descending: true}})
	}
	f(Breakdown(), "limit=1&", Params{Period: period, Limit: 1, Order: byClicks})
	f(Breakdown(), "&limit=1000&&order_by=key", Params{Period: period, Limit: 1000, Order: Order{By: "key"}})
	f(Breakdown(), "limit=007", Params{Period: period, Limit: 7, Order: byClicks})
	f(Breakdown(), "li%6Dit=%31%32", Params{Period: period, Limit: 12, Order: byClicks})
	f(Breakdown(), "offset=24999&limit=1", Params{Period: period, Limit: 1, Offset: 24_999, Order: Order{By: "clicks", Descending: true}})
	f(Breakdown(), "order_by=%2Dposition", Params{Period: period, Limit: 100, Order: Order{By: "position", Descending: true}})
	f(Summary(), "compare=none", Params{Period: period})
	f(Summary(), "compare=previous_period", Params{Period: period, Compare: PreviousPeriod})
	f(Movers(), "limit=50&min_clicks=1000000000", Params{Period: period, Limit: 50, MinClicks: 1_000_000_000, Compare: PreviousPeriod})
	f(Movers(), "min_clicks=0", Params{Period: period, Limit: 10, Compare: PreviousPeriod})
	f(Properties(), "limit=200&offset=1000000000&include_archived=true", Params{Limit: 200, Offset: 1_000_000_000, IncludeArchived: true})
	f(Properties(), "include_archived=false", Params{Limit: 50})
	first, last := day("2025-01-01"), day("2026-12-31")
	f(Annotations(), "start_date=2025-01-01", Params{From: &first})
	f(Annotations(), "end_date=2026-12-31", Params{To: &last})
	f(Annotations(), "end_date=2026-12-31&start_date=2025-01-01", Params{From: &first, To: &last})
	f(Annotations(), "end_date=2025-01-01&start_date=2025-01-01", Params{From: &first, To: &first})
	f(Indexing(), "days=365&include_trend=true", Params{TrendDays: 365, IncludeTrend: true})
	f(Indexing(), "days=30", Params{TrendDays: 30})
	f(IndexedURLs(), "dir=asc&sort=last_crawl_time&limit=500&offset=3", Params{Limit: 500, Offset: 3, Order: Order{By: "last_crawl_time"}})
	for _, b := range Buckets() {
		f(IndexedURLs(), "bucket="+b.String()+"&sort=url", Params{Limit: 100, Bucket: b, Order: Order{By: "url", Descending: true}})
	}
	f(IndexedURLs(), "coverage_state=Soft+404&sitemap_path=https%3A%2F%2Fa%2Fs.xml&q=100%25_%5C&sort=last_inspected_at",
		Params{Limit: 100, CoverageState: "Soft 404", SitemapPath: "https://a/s.xml", Contains: `100%_\`,
			Order: Order{By: "last_inspected_at", Descending: true}})
	longest := strings.Repeat("é", 2048)
	f(IndexedURLs(), "q="+longest, Params{Limit: 100, Contains: longest, Order: Order{By: "importance", Descending: true}})
	// A plus is a space, in filters too.
	filter := Filter{Dimension: "query", Operator: "contains", Value: "running shoes + socks"}
	f(Timeseries(), "filters="+url.QueryEscape(oneFilter("query", "contains", "running shoes + socks")),
		Params{Period: period, Filters: []Filter{filter}})
	f(Timeseries(), "filters=[]", Params{Period: period})
}

func TestParseRefusesUnknownParameters(t *testing.T) {
	f := func(e Endpoint, query, code, message string) {
		t.Helper()
		wantError(t, e, query, window(), code, message)
	}
	unknown := func(e Endpoint, query, name, takes string) {
		t.Helper()
		f(e, query, CodeUnsupportedParameter, "this endpoint has no parameter "+name+"; it takes "+takes)
	}
	breakdown := "date_range, start_date, end_date, filters, limit, offset, order_by"
	unknown(Breakdown(), "Limit=5", `"Limit"`, breakdown)
	unknown(Breakdown(), "limit =5", `"limit "`, breakdown)
	unknown(Breakdown(), "limit%20=5", `"limit "`, breakdown)
	unknown(Breakdown(), "limit[]=5", `"limit[]"`, breakdown)
	unknown(Timeseries(), "offset=5", `"offset"`, "date_range, start_date, end_date, filters")
	unknown(Breakdown(), "compare=none", `"compare"`, breakdown)
	unknown(Breakdown(), "=5", `""`, breakdown)
	unknown(Breakdown(), "=", `""`, breakdown)
	unknown(Breakdown(), "limit=5&typo", `"typo"`, breakdown)
	unknown(Breakdown(), "typo=%zz", `"typo"`, breakdown)
	unknown(Breakdown(), "%0A%22=1", `"\n\""`, breakdown)
	unknown(Breakdown(), strings.Repeat("é", 65)+"=1", `"`+strings.Repeat("é", 64)+`…"`, breakdown)
	unknown(Breakdown(), strings.Repeat("é", 64)+"=1", `"`+strings.Repeat("é", 64)+`"`, breakdown)
	unknown(Summary(), "limit=5", `"limit"`, "date_range, start_date, end_date, filters, compare")
	unknown(Timeseries(), "compare=none", `"compare"`, "date_range, start_date, end_date, filters")
	unknown(Movers(), "order_by=clicks", `"order_by"`, "date_range, start_date, end_date, limit, min_clicks")
	unknown(Movers(), "compare=previous_period", `"compare"`, "date_range, start_date, end_date, limit, min_clicks")
	unknown(Properties(), "q=x", `"q"`, "limit, offset, include_archived")
	unknown(Indexing(), "limit=5", `"limit"`, "days, include_trend")
	unknown(IndexedURLs(), "order_by=url", `"order_by"`, "bucket, coverage_state, sitemap_path, q, sort, dir, limit, offset")
	unknown(IndexedURLs(), "days=30", `"days"`, "bucket, coverage_state, sitemap_path, q, sort, dir, limit, offset")
	unknown(Annotations(), "date_range=last_7d", `"date_range"`, "start_date, end_date")
	unknown(Portfolio(), "filters=[]", `"filters"`, "date_range, start_date, end_date, compare, order_by, limit, offset")
	unknown(IndexedURLs(), "filters=[]", `"filters"`, "bucket, coverage_state, sitemap_path, q, sort, dir, limit, offset")
	f(Endpoint{}, "verbose=1", CodeUnsupportedParameter, `this endpoint has no parameter "verbose"; it takes none`)

	noFilters := "this endpoint does not accept filters; to compare a segment, request /queries or /pages twice with explicit ranges"
	for _, query := range []string{"filters=[]", "filters=", "filters", "f%69lters=%5B%5D", "filters=%zz", "limit=5&filters=[]"} {
		f(Movers(), query, CodeUnsupportedParameter, noFilters)
	}
}

func TestParseRefusesValuesOutOfBounds(t *testing.T) {
	f := func(e Endpoint, query, message string) {
		t.Helper()
		wantError(t, e, query, window(), CodeValidation, message)
	}
	for _, value := range []string{"0", "-1", "1001", "1.5", "1e2", "0x10", "1_0", "abc", "%2B5", "+5", "5+", "%2010", "٣",
		"2147483648", "99999999999999999999", "null", "true", "5;offset=2"} {
		decoded, err := url.QueryUnescape(value)
		if err != nil {
			t.Fatal(err)
		}
		quoted := `"` + decoded + `"`
		f(Breakdown(), "limit="+value, "limit "+quoted+" is not an integer from 1 to 1000")
	}
	f(Movers(), "limit=51", `limit "51" is not an integer from 1 to 50`)
	f(Movers(), "limit=0", `limit "0" is not an integer from 1 to 50`)
	f(Movers(), "min_clicks=-1", `min_clicks "-1" is not an integer from 0 to 1000000000`)
	f(Movers(), "min_clicks=1000000001", `min_clicks "1000000001" is not an integer from 0 to 1000000000`)
	f(Properties(), "limit=201", `limit "201" is not an integer from 1 to 200`)
	f(Properties(), "limit=0", `limit "0" is not an integer from 1 to 200`)
	f(Properties(), "offset=-1", `offset "-1" is not an integer from 0 to 1000000000`)
	f(Properties(), "include_archived=1", `include_archived "1" is not one of true, false`)
	f(Properties(), "include_archived=True", `include_archived "True" is not one of true, false`)
	orders := strings.Join(Orders(), ", ")
	for _, value := range []string{"Clicks", "--clicks", "clicks-", "date", "query", "-"} {
		f(Breakdown(), "order_by="+value, `order_by "`+value+`" is not one of `+orders)
	}
	f(Breakdown(), "order_by=+clicks", `order_by " clicks" is not one of `+orders)
	f(Summary(), "compare=yes", `compare "yes" is not one of none, previous_period, previous_year`)
	f(Summary(), "compare=NONE", `compare "NONE" is not one of none, previous_period, previous_year`)
	for _, value := range []string{"0", "7", "31", "030", "90.0", "-30", "366", "all"} {
		f(Indexing(), "days="+value, `days "`+value+`" is not one of 30, 90, 365`)
	}
	f(Indexing(), "include_trend=yes", `include_trend "yes" is not one of true, false`)
	f(IndexedURLs(), "bucket=Indexed", `bucket "Indexed" is not one of indexed, not_indexed, error, unknown`)
	f(IndexedURLs(), "sort=clicks", `sort "clicks" is not one of importance, url, last_crawl_time, last_inspected_at`)
	f(IndexedURLs(), "dir=DESC", `dir "DESC" is not one of asc, desc`)
	f(IndexedURLs(), "limit=501", `limit "501" is not an integer from 1 to 500`)
	f(IndexedURLs(), "limit=0", `limit "0" is not an integer from 1 to 500`)
	for _, value := range []string{"-1", "25000", "abc", "1.0", "1e3", "0x1"} {
		f(Breakdown(), "offset="+value, `offset "`+value+`" is not an integer from 0 to 24999`)
	}
	f(Breakdown(), "offset=1&limit=2&offset=1", "offset is given twice")
	f(Breakdown(), "offset=", "offset is empty: leave it out, or give it a value")
	f(IndexedURLs(), "offset=-1", `offset "-1" is not an integer from 0 to 1000000000`)
	for _, name := range []string{"coverage_state", "sitemap_path", "q"} {
		f(IndexedURLs(), name+"="+strings.Repeat("é", 2049), name+" is longer than 2048 characters")
	}
	presets := strings.Join(Presets(), ", ")
	for _, value := range []string{"last_8d", "LAST_7D", "last_7d%20", "last_1m", "all"} {
		decoded := strings.ReplaceAll(value, "%20", " ")
		for _, e := range []Endpoint{Summary(), Timeseries(), Breakdown(), Movers()} {
			f(e, "date_range="+value, `date_range "`+decoded+`" is not one of `+presets)
		}
	}
	for _, name := range []string{"start_date", "end_date"} {
		for _, value := range []string{"2026-6-1", "2026-02-29", "yesterday", "1969-12-31", "2026-06-01T00:00:00Z"} {
			for _, e := range []Endpoint{Summary(), Timeseries(), Breakdown(), Movers(), Annotations()} {
				f(e, name+"="+value, name+`: "`+value+`" is not a date of the form YYYY-MM-DD, 1970-01-01 or later`)
			}
		}
	}
	f(Annotations(), "start_date=2026-06-02&end_date=2026-06-01", "start_date 2026-06-02 is after end_date 2026-06-01")

	// A long value is abbreviated in the message.
	long, cut := strings.Repeat("9", 10_000), `"`+strings.Repeat("9", 40)+`"`
	f(Breakdown(), "limit="+long, "limit "+cut+" is not an integer from 1 to 1000")
	f(Breakdown(), "order_by="+long, "order_by "+cut+" is not one of "+orders)
	f(Breakdown(), "start_date="+long, "start_date: "+cut+" is not a date of the form YYYY-MM-DD, 1970-01-01 or later")
}

// Values that no parameter of any endpoint accepts.
func TestParametersRefuseMalformedValues(t *testing.T) {
	for endpoint, e := range endpoints() {
		for _, p := range e.Params {
			f := func(query, message string) {
				t.Helper()
				t.Run(endpoint+"?"+query, func(t *testing.T) { wantError(t, e, query, window(), CodeValidation, message) })
			}
			empty := p.Name + " is empty: leave it out, or give it a value"
			f(p.Name, empty)
			f(p.Name+"=", empty)
			f("&"+p.Name+"=&", empty)
			for _, escape := range []string{"%", "%4", "%zz", "a%", "%E4%B", "%%"} {
				f(p.Name+"="+escape, p.Name+" has a broken percent escape")
			}
			for _, broken := range []string{"%ff", "\xff", "%C3%28", "%ED%A0%80", "%F5%80%80%80", "%C0%80"} {
				f(p.Name+"="+broken, p.Name+" is not UTF-8")
			}
			f(p.Name+"=%00", p.Name+" holds a NUL character")
			f(p.Name+"=a\x00b", p.Name+" holds a NUL character")
			f("%zz"+p.Name+"=1", "a parameter's name has a broken percent escape")
			f("%ff"+p.Name+"=1", "a parameter's name is not UTF-8")
			f(p.Name+"%00=1", "a parameter's name holds a NUL character")
		}
	}
}

func TestParametersRefuseDuplicates(t *testing.T) {
	for endpoint, e := range endpoints() {
		for _, p := range e.Params {
			value := p.Default
			if value == "" && p.Kind == KindString {
				value = "indexed" // valid both as text and as a bucket
			}
			switch p.Kind {
			case KindDate:
				value = "2026-06-01"
			case KindFilters:
				value = "[]"
			}
			name := fmt.Sprintf("%%%02x%s", p.Name[0], p.Name[1:]) // the same name, its first letter escaped
			for _, query := range []string{
				p.Name + "=" + value + "&" + p.Name + "=" + value,
				p.Name + "=" + value + "&" + name + "=" + value,
				name + "=" + value + "&&" + p.Name + "=" + value,
			} {
				t.Run(endpoint+"?"+query, func(t *testing.T) {
					wantError(t, e, query, window(), CodeValidation, p.Name+" is given twice")
				})
			}
		}
	}
}

// Neither the order of parameters nor explicit defaults make a difference.
func TestExplicitDefaultsAndOrderGiveEqualParams(t *testing.T) {
	for endpoint, e := range endpoints() {
		short, err := Parse(e, nil, window())
		if err != nil {
			t.Fatal(err)
		}
		var pairs []string
		for _, p := range e.Params {
			if p.Default != "" {
				pairs = append(pairs, p.Name+"="+p.Default)
			}
		}
		for range 2 {
			long, err := Parse(e, []byte(strings.Join(pairs, "&")), window())
			if err != nil || summarise(long) != summarise(short) {
				t.Errorf("%s?%s: %v, %v, want as without", endpoint, strings.Join(pairs, "&"), long, err)
			}
			slices.Reverse(pairs)
		}
	}
}

// The HTTP server reuses the bytes for the next request.
func TestParseDoesNotRetainTheQueryString(t *testing.T) {
	filters := "filters=" + oneFilter("query", "contains", "shoes")
	f := func(e Endpoint, query string) {
		t.Helper()
		raw := []byte(query)
		params, err := Parse(e, raw, window())
		if err != nil {
			t.Errorf("%s: %v", query, err)
			return
		}
		before := summarise(params)
		overwrite(raw)
		if after := summarise(params); after != before {
			t.Errorf("%s:\nbefore %s\n after %s", query, before, after)
		}
	}
	dates := "start_date=2026-05-01&end_date=2026-06-30&"
	f(Endpoint{}, "&")
	f(Summary(), filters+"&date_range=last_7d&compare=previous_period")
	f(Summary(), dates+filters+"&date_range=last_7d")
	f(Timeseries(), filters+"&date_range=last_16m")
	f(Timeseries(), dates+filters+"&date_range=last_16m")
	f(Breakdown(), filters+"&date_range=last_3m&limit=5&order_by=impressions")
	f(Breakdown(), "filters=[{%22dimension%22:%22page%22,%22operator%22:%22is%22,%22value%22:%22a%22}]&order_by=-position")
	f(Movers(), "date_range=previous_month&limit=5&min_clicks=3")
	f(Movers(), dates+"limit=5&min_clicks=3")
	f(Properties(), "limit=5&offset=10&include_archived=true")
	f(Annotations(), dates)
	f(Indexing(), "days=30&include_trend=true")
	f(IndexedURLs(), "bucket=error&coverage_state=Soft 404&sitemap_path=a&q=b&sort=url&dir=asc")
	for endpoint, e := range endpoints() {
		for _, name := range append(boundedNames(e), "typo", "lim%69t") {
			for _, value := range []string{"", "nonsense", "%zz", "%ff", "9999-99-99", `[{"dimension":"nonsense"}]`, `[{"nonsense":"query"}]`} {
				raw := []byte(name + "=" + value)
				_, err := Parse(e, raw, window())
				if err == nil {
					t.Errorf("%s?%s is accepted", endpoint, raw)
					continue
				}
				before := strings.Clone(err.Error())
				overwrite(raw)
				if after := err.Error(); after != before {
					t.Errorf("%s?%s=%s: %q became %q", endpoint, name, value, before, after)
				}
			}
		}
	}
}

func overwrite(raw []byte) {
	for i := range raw {
		raw[i] = '~'
	}
}

// boundedNames are the parameters that do not accept arbitrary text.
func boundedNames(e Endpoint) []string {
	var names []string
	for _, p := range e.Params {
		if p.MaxLength == 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

// describe formats a parameter as name:kind=default{choices}[min,max].
func describe(p Param) string {
	s := p.Name + ":" + string(p.Kind)
	if p.Default != "" {
		s += "=" + p.Default
	}
	if p.Choices != nil {
		s += "{" + strings.Join(p.Choices, ",") + "}"
	}
	if p.MaxLength > 0 {
		s += fmt.Sprintf("(%d)", p.MaxLength)
	}
	if p.Kind == KindInteger && p.Choices == nil {
		s += fmt.Sprintf("[%d,%d]", p.Min, p.Max)
	}
	return s
}

// summarise formats all exported fields of Params, with pointers dereferenced.
func summarise(a *Params) string {
	optional := func(d *Date) string {
		if d == nil {
			return "none"
		}
		return d.String()
	}
	return fmt.Sprintf("%v filters=%q limit=%d offset=%d order=%v compare=%v min_clicks=%d archived=%v from=%s to=%s notes=%q"+
		" trend=%v days=%d bucket=%v coverage_state=%q sitemap_path=%q q=%q", a.Period, a.Filters, a.Limit, a.Offset, a.Order, a.Compare, a.MinClicks,
		a.IncludeArchived, optional(a.From), optional(a.To), a.Notes, a.IncludeTrend, a.TrendDays, a.Bucket, a.CoverageState, a.SitemapPath, a.Contains)
}
