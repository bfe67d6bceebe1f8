package trace

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func config(seed uint64) Config {
	return Config{Seed: seed, Requests: 20_000, Accounts: 4, People: 8, Properties: 120, Anchor: dayOf(2026, time.November, 19)}
}

func TestSeedDeterminesTheTrace(t *testing.T) {
	first, again, other := Generate(config(1)), Generate(config(1)), Generate(config(2))
	if !reflect.DeepEqual(first, again) {
		t.Error("one seed generates two traces")
	}
	if reflect.DeepEqual(first, other) {
		t.Error("two seeds generate one trace")
	}
}

func TestRequestsAreOrderedAndOfTheOwningAccount(t *testing.T) {
	c := config(3)
	requests := Generate(c)
	if len(requests) != c.Requests {
		t.Fatalf("%d requests, want %d", len(requests), c.Requests)
	}
	for i, r := range requests {
		if i > 0 && r.At < requests[i-1].At {
			t.Fatalf("request %d is before the one before it", i)
		}
		if r.Property < 0 || r.Property >= c.Properties || c.Account(r.Property) != r.Account || r.Person < 0 || r.Person >= c.People {
			t.Fatalf("impossible request: %+v", r)
		}
	}
}

// The property of rank k in an account is opened with a frequency proportional to (k+1)^-1.1.
func TestPopularityIsZipf(t *testing.T) {
	const draws, account = 100_000, 2
	g := generator{Config: config(4), random: rand.New(rand.NewPCG(4, 4))}
	opened := make([]float64, g.Properties/g.Accounts)
	for range draws {
		property := g.drawProperty(account)
		if g.Account(property) != account {
			t.Fatalf("account %d opens property %d", account, property)
		}
		opened[property/g.Accounts]++
	}
	sum := 0.0
	for rank := range opened {
		sum += math.Pow(float64(rank+1), -zipfExponent)
	}
	for rank, n := range opened {
		want := math.Pow(float64(rank+1), -zipfExponent) / sum
		if got := n / draws; math.Abs(got-want) > 0.1*want {
			t.Errorf("rank %d is opened in %.4f of the cases, want about %.4f", rank, got, want)
		}
	}
}

// The mix that the package doc describes, with a tolerance.
func TestMixIsAsDocumented(t *testing.T) {
	requests := Generate(config(5))
	total := float64(len(requests))
	within := func(what string, low, high float64, is func(Request) bool) {
		t.Helper()
		n := 0.0
		for _, r := range requests {
			if is(r) {
				n++
			}
		}
		if n/total < low || n/total > high {
			t.Errorf("%s: %.4f of the requests, want %.4f to %.4f", what, n/total, low, high)
		}
	}
	has := func(r Request, name string) bool {
		return slices.ContainsFunc(r.Params, func(p Param) bool { return p.Name == name })
	}
	within("figures and sparklines", .75, .90, func(r Request) bool { return r.Endpoint == "summary" || r.Endpoint == "timeseries" })
	within("queries and pages", .08, .20, func(r Request) bool { return r.Endpoint == "queries" || r.Endpoint == "pages" })
	within("countries and devices", .01, .05, func(r Request) bool { return r.Endpoint == "countries" || r.Endpoint == "devices" })
	within("movers", .001, .02, func(r Request) bool { return strings.HasPrefix(r.Endpoint, "movers/") })
	within("filtered", .005, .05, func(r Request) bool { return has(r, "filters") })
	within("with explicit dates", .15, .40, func(r Request) bool { return has(r, "start_date") })
	within("over the default range, omitted", .15, .45, func(r Request) bool {
		return !has(r, "start_date") && !has(r, "date_range")
	})
	within("in another order", .02, .08, func(r Request) bool {
		return has(r, "order_by") && !slices.Contains(r.Params, Param{"order_by", "-clicks"})
	})
}

// parameters returns the parameters of an endpoint, by the API's specification.
func parameters(endpoint string) []string {
	switch endpoint {
	case "summary":
		return []string{"date_range", "start_date", "end_date", "filters", "compare"}
	case "timeseries":
		return []string{"date_range", "start_date", "end_date", "filters"}
	case "queries", "pages", "countries", "devices":
		return []string{"date_range", "start_date", "end_date", "filters", "limit", "order_by"}
	case "movers/queries", "movers/pages":
		return []string{"date_range", "start_date", "end_date", "limit", "min_clicks"}
	}
	return nil
}

func TestEveryRequestIsValid(t *testing.T) {
	c := config(6)
	for _, r := range Generate(c) {
		parsed, err := url.Parse(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		query, err := url.ParseQuery(parsed.RawQuery)
		if err != nil {
			t.Fatalf("%s: %v", r.URL(), err)
		}
		if parsed.Path != "/v1/properties/"+Domain(r.Property)+"/"+r.Endpoint || len(query) != len(r.Params) {
			t.Fatalf("%s is not the URL of %+v", r.URL(), r)
		}
		for name, values := range query {
			if !slices.Contains(parameters(r.Endpoint), name) {
				t.Fatalf("%s: the endpoint has no parameter %s", r.URL(), name)
			}
			if !validValue(c, r, name, values[0]) {
				t.Fatalf("%s: %s=%q is not allowed", r.URL(), name, values[0])
			}
		}
		if query.Has("start_date") != query.Has("end_date") || query.Has("date_range") && query.Has("start_date") {
			t.Fatalf("%s: invalid combination of dates", r.URL())
		}
		checkReach(t, c, r)
	}
}

func validValue(c Config, r Request, name, value string) bool {
	number := func(low, high int) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n >= low && n <= high
	}
	switch name {
	case "date_range":
		return slices.Contains([]string{"last_7d", "last_28d", "last_90d", "last_3m", "last_12m", "month_to_date", "previous_month"}, value)
	case "start_date", "end_date":
		day, err := time.Parse(time.DateOnly, value)
		return err == nil && day.Format(time.DateOnly) == value
	case "compare":
		return value == "none" || value == "previous_period"
	case "limit":
		if strings.HasPrefix(r.Endpoint, "movers/") {
			return number(1, 50)
		}
		return number(1, 1000)
	case "min_clicks":
		return number(0, 1000)
	case "order_by":
		return slices.Contains([]string{"clicks", "impressions", "ctr", "position", "key"}, strings.TrimPrefix(value, "-"))
	case "filters":
		return validFilters(c, r.Property, value)
	}
	return false
}

func validFilters(c Config, property int, text string) bool {
	var filters []map[string]string
	if json.Unmarshal([]byte(text), &filters) != nil || len(filters) == 0 {
		return false
	}
	for _, f := range filters {
		exact := f["operator"] == "equals" || f["operator"] == "is"
		valid := false
		switch f["dimension"] {
		case "brand":
			valid = exact && c.HasSegments(property) && (f["value"] == "brand" || f["value"] == "non-brand")
		case "page_group":
			valid = exact && c.HasSegments(property) && slices.Contains(PageGroups(), f["value"])
		case "country":
			valid = exact && len(f["value"]) == 3
		case "device":
			valid = exact && (f["value"] == "mobile" || f["value"] == "desktop")
		case "query":
			valid = f["operator"] == "contains" && f["value"] != ""
		}
		if !valid || len(f) != 3 {
			return false
		}
	}
	return true
}

// checkReach checks that the upstream has every day that the answer needs.
func checkReach(t *testing.T, c Config, r Request) {
	t.Helper()
	q, err := c.Anchor.question(r)
	if err != nil {
		t.Fatal(err)
	}
	first := q.from
	if q.compare || q.isMovers() {
		first = q.previous().from
	}
	if q.from > q.to || q.to > c.Anchor || first.String() < "2025-07-20" { // 16 months before 2026-11-19
		t.Fatalf("%s needs the days from %v to %v", r.URL(), first, q.to)
	}
}

func TestDays(t *testing.T) {
	anchor := dayOf(2026, time.May, 31)
	for _, c := range []struct{ preset, from, to string }{
		{"last_7d", "2026-05-25", "2026-05-31"}, {"last_28d", "2026-05-04", "2026-05-31"}, {"last_90d", "2026-03-03", "2026-05-31"},
		{"last_3m", "2026-03-01", "2026-05-31"}, {"last_12m", "2025-06-01", "2026-05-31"},
		{"month_to_date", "2026-05-01", "2026-05-31"}, {"previous_month", "2026-04-01", "2026-04-30"},
	} {
		s, err := presetSpan(c.preset, anchor)
		if err != nil || s.from.String() != c.from || s.to.String() != c.to {
			t.Errorf("%s is %v to %v (%v), want %s to %s", c.preset, s.from, s.to, err, c.from, c.to)
		}
	}
	// It is still the previous day in Los Angeles.
	if got, err := Anchor(time.Date(2026, time.November, 21, 7, 59, 0, 0, time.UTC)); err != nil || got.String() != "2026-11-18" {
		t.Errorf("the anchor is %v (%v), want 2026-11-18", got, err)
	}
}
