package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sara/proxy/openapi"
)

// filterRefusals are values of filters that must be a 400 and never an unfiltered answer.
func filterRefusals() []refusal {
	const good = `{"dimension":"query","operator":"contains","value":"x"}`
	filter := func(dimension, operator, value string) string {
		return fmt.Sprintf(`[{"dimension":%q,"operator":%q,"value":%q}]`, dimension, operator, value)
	}
	values := []string{
		"", " ", "null", "true", "0", `"x"`, `{}`, good, "[", "]", "[,]", "[" + good, "[" + good + ",]", "[" + good + "]x", "[" + good + "][]",
		"[[]]", "[null]", "[1]", `["x"]`, "[{}]", "[[" + good + "]]", "[" + good + ",null]", "'[]'", "[" + good + "]\x00", "\ufeff[" + good + "]",
		`[{"dimension":"query","operator":"contains"}]`, `[{"dimension":"query","value":"x"}]`, `[{"operator":"contains","value":"x"}]`,
		`[{"dimension":"query","operator":"contains","value":"x","extra":1}]`, `[{"dimension":"query","operator":"contains","value":"x","Value":"y"}]`,
		`[{"Dimension":"query","operator":"contains","value":"x"}]`, `[{"dimension":"query","operator":"contains","expression":"x"}]`,
		`[{"dimension":"query","dimension":"page","operator":"contains","value":"x"}]`,
		`[{"dimension":"query","operator":"contains","value":"x","value":"y"}]`,
		`[{"dimension":"query","operator":"contains","value":"x","v\u0061lue":"y"}]`,
		`[{"dimension":1,"operator":"contains","value":"x"}]`, `[{"dimension":"query","operator":null,"value":"x"}]`,
		`[{"dimension":"query","operator":"contains","value":1}]`, `[{"dimension":"query","operator":"contains","value":null}]`,
		`[{"dimension":"query","operator":"contains","value":["x"]}]`, `[{"dimension":"query","operator":"contains","value":{"a":"b"}}]`,
		`[{"dimension":"query","operator":"contains","value":true}]`,
		`[{"dimension":"query","operator":"contains","value":"\ud800"}]`, `[{"dimension":"query","operator":"contains","value":"a\u0000"}]`,
		`[{"dimension":"query","operator":"contains","value":"\x"}]`, "[{\"dimension\":\"query\",\"operator\":\"contains\",\"value\":\"a\nb\"}]",
		filter("query", "contains", ""), filter("query", "contains", strings.Repeat("é", 201)),
		filter("Query", "contains", "x"), filter("QUERY", "contains", "x"), filter("date", "equals", "2026-11-01"),
		filter("searchAppearance", "equals", "x"), filter("hour", "equals", "1"), filter("", "equals", "x"),
		filter("page group", "equals", "Blog"), filter("pageGroup", "equals", "Blog"),
		filter("query", "Contains", "x"), filter("query", "notContains", "x"), filter("query", "includingRegex", "x"), filter("query", "", "x"),
		filter("query", "starts_with", "x"), filter("query", "eq", "x"), filter("query", "contains ", "x"),
		filter("query", "regex", "("), filter("query", "regex", "a(?=b)"), filter("query", "regex", `(a)\1`), filter("page", "not_regex", "[z-a]"),
		filter("query", "regex", "a{1001}"), filter("query", "regex", "*"),
		filter("device", "equals", "phone"), filter("device", "equals", "mobil"), filter("device", "regex", "("),
		filter("device", "regex", "o{8}"), filter("device", "equals", "mobıle"), filter("device", "equals", "mobile "),
		filter("country", "equals", "us"), filter("country", "equals", "usa1"), filter("country", "is", "united states"),
		filter("country", "not_equals", "u-a"), filter("country", "is_not", "dеu"), filter("country", "equals", "u\u017fa"),
		filter("brand", "equals", "yes"), filter("brand", "equals", "Brand"), filter("brand", "equals", "nonbrand"), filter("brand", "contains", "brand"),
		filter("brand", "regex", "brand"), filter("brand", "not_contains", "non-brand"), filter("brand", "not_regex", "brand"),
		filter("page_group", "equals", "Nothing"), filter("page_group", "equals", "blog"), filter("page_group", "contains", "Blog"),
		filter("page_group", "regex", "Blog"), filter("page_group", "is_not", "Blog "),
		"[" + strings.Repeat(good+",", 20) + good + "]",
		strings.Repeat("[", 5000),
	}
	refusals := []refusal{
		{"filters=%5B%5D&filters=%5B%5D", codeValidation, "filters"},
		{"filters=%5B%zz", codeValidation, "filters"},
		{"filters=%5B%7B%", codeValidation, "filters"},
		{"filters=%ff", codeValidation, "filters"},
		{"filters=%5B%5D&%66ilters=%5B%5D", codeValidation, "filters"},
		{"Filters=%5B%5D", codeUnsupported, "Filters"},
		{"filters%5B%5D=x", codeUnsupported, "filters[]"},
		{"filter=%5B%5D", codeUnsupported, "filter"},
	}
	for _, value := range values {
		refusals = append(refusals, refusal{"filters=" + url.QueryEscape(value), codeValidation, "filters"})
	}
	return refusals
}

func filtersOf(triples ...string) string {
	var list []map[string]string
	for i := 0; i < len(triples); i += 3 {
		list = append(list, map[string]string{"dimension": triples[i], "operator": triples[i+1], "value": triples[i+2]})
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Every dimension with every operator selects the same rows as the upstream does.
func TestFilters200MatchTheUpstream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	const site = "sc-domain:example.com"
	operators := map[string]string{"contains": "contains", "equals": "equals", "regex": "includingRegex", "not_contains": "notContains",
		"not_equals": "notEquals", "not_regex": "excludingRegex", "is": "equals", "is_not": "notEquals"}
	pages := o.ask(t, site, "page", "2026-11-13", "2026-11-19", 3)
	values := map[string]map[string]string{
		"query":   {"contains": "BOOTS", "equals": "example", "regex": `(?i)^(best|cheap)\b`},
		"page":    {"contains": "guide", "equals": pages[1].Keys[0], "regex": `/blog/.*[0-9]$`},
		"country": {"contains": "s", "equals": "USA", "regex": "^(usa|deu)$"},
		"device":  {"equals": "mobile", "contains": "Le", "regex": "^(mobile|tab)"},
	}
	var combinations []struct{ dimension, operator, value string }
	for _, dimension := range slices.Sorted(maps.Keys(values)) {
		for _, operator := range slices.Sorted(maps.Keys(operators)) {
			kind := strings.TrimPrefix(operator, "not_")
			if kind == "is" || kind == "is_not" {
				kind = "equals"
			}
			if value, ok := values[dimension][kind]; ok {
				combinations = append(combinations, struct{ dimension, operator, value string }{dimension, operator, value})
			}
		}
	}
	for _, device := range []string{"desktop", "DESKTOP", "MoBiLe", "tablet"} {
		combinations = append(combinations, struct{ dimension, operator, value string }{"device", "is", device})
	}
	for dimension, quoted := range map[string]string{"device": `^\Qmob`, "query": `\Qbo`} { // RE2 lets a quotation end with the expression
		combinations = append(combinations, struct{ dimension, operator, value string }{dimension, "regex", quoted})
	}
	unfiltered := o.ask(t, site, "country", "2026-11-13", "2026-11-19", 25000)
	for _, c := range combinations {
		w.run(c.dimension+" "+c.operator+" "+c.value, func(t *testing.T) {
			condition := condition{c.dimension, operators[c.operator], c.value}
			r := w.get("pro", w.path("main", "/countries"), "date_range", "last_7d", "limit", "1000",
				"filters", filtersOf(c.dimension, c.operator, c.value)).ok(t)
			want := o.ask(t, site, "country", "2026-11-13", "2026-11-19", 25000, condition)
			wantRows(t, "countries", r.rows(), "key", want)
			if fmt.Sprint(want) == fmt.Sprint(unfiltered) {
				t.Error("the filter changes nothing: the case proves nothing")
			}
		})
	}
}

// Device filters that leave no device are answered without a call, unless no filter can be answered.
func TestEveryPerformanceEndpoint200NoDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nothing := filtersOf("device", "is", "mobile", "device", "not_contains", "mob")
	for _, endpoint := range []string{"/summary", "/timeseries", "/queries", "/pages", "/countries", "/devices"} {
		made := w.calls(func() {
			r := w.get("pro", w.path("main", endpoint), "date_range", "last_7d", "filters", nothing).ok(t)
			if r.meta()["source"] != "live" || !strings.Contains(notes(r), "leave none of desktop, mobile and tablet") {
				t.Errorf("%s: meta is %v", endpoint, r.meta())
			}
			if rows, days := len(r.rows()), map[string]int{"/timeseries": 7}; rows != days[endpoint] {
				t.Errorf("%s has %d rows", endpoint, rows)
			}
			if endpoint == "/summary" {
				wantMetrics(t, "totals", r.data()["totals"], figure{})
			}
		})
		if made != 0 {
			t.Errorf("%s made %d calls", endpoint, made)
		}
		w.get("pro", w.path("archived", endpoint), "filters", nothing).want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
	}
}

// The upstream reports URLs percent-encoded; a filter may be written decoded.
func TestPages200DecodedFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const page = "https://www.example.com/blog/%C3%A4pfel%20und%20birnen"
	var asked []string
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		mustWrite(rw, `{"rows":[{"keys":["`+page+`"],"clicks":3,"impressions":9,"ctr":0.3333333333333333,"position":2}]}`)
	})
	for operator, value := range map[string]string{"contains": "/blog/äpfel",
		"equals": "https://www.example.com/blog/äpfel und birnen", "not_contains": "/ö"} {
		r := w.get("pro", w.path("main", "/pages"), "filters", filtersOf("page", operator, value)).ok(t)
		if len(r.rows()) != 1 || strings.Contains(asked[len(asked)-1], "ä") || !strings.Contains(asked[len(asked)-1], "%C3%") {
			t.Errorf("%s %s asks %s", operator, value, asked[len(asked)-1])
		}
	}
	encoded := filtersOf("page", "equals", page)
	made := len(asked)
	if w.get("pro", w.path("main", "/pages"), "filters", encoded).ok(t); len(asked) != made {
		t.Error("the encoded form is another question")
	}
	r := w.get("pro", w.path("main", "/pages"), "filters", filtersOf("page", "equals", "/blog/")).ok(t)
	if !strings.Contains(notes(r), "filters[0] matches nothing: a page is a full URL") {
		t.Errorf("the notes are %q", notes(r))
	}
}

func TestFilters200AreANDed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	const site = "sc-domain:example.com"
	filters := filtersOf("query", "contains", "boots", "device", "is", "mobile", "country", "is_not", "usa", "page", "contains", "a")
	conditions := []condition{{"query", "contains", "boots"}, {"device", "equals", "MOBILE"}, {"country", "notEquals", "usa"}, {"page", "contains", "a"}}
	for endpoint, by := range map[string]string{"/queries": "query", "/pages": "page", "/devices": "device", "/countries": "country"} {
		r := w.get("pro", w.path("main", endpoint), "limit", "1000", "filters", filters).ok(t)
		wantRows(t, endpoint, r.rows(), "key", o.ask(t, site, by, "2026-10-23", "2026-11-19", 1000, conditions...))
	}
	want := o.total(t, site, "2026-10-23", "2026-11-19", conditions...)
	if want.Clicks == 0 {
		t.Fatal("these filters match nothing: the test proves nothing")
	}
	wantMetrics(t, "summary", w.get("pro", w.path("main", "/summary"), "filters", filters).ok(t).data()["totals"], want)
	r := w.get("pro", w.path("main", "/timeseries"), "filters", filters).ok(t)
	wantRows(t, "timeseries", r.rows(), "date", o.ask(t, site, "date", "2026-10-23", "2026-11-19", 1000, conditions...))
}

// An empty array is no filter, and twenty filters are allowed.
func TestFilters200Bounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("prefix", "/summary")
	plain := w.get("pro", path).ok(t).data()
	if empty := w.get("pro", path, "filters", " [ ] ").ok(t).data(); fmt.Sprint(empty) != fmt.Sprint(plain) {
		t.Errorf("filters=[] answers %v, without it %v", empty, plain)
	}
	twenty := slices.Repeat([]string{"query", "not_contains", ""}, 20)
	for i := range 20 {
		twenty[3*i+2] = strings.Repeat("x", 199) + string(rune('a'+i))
	}
	w.get("pro", path, "filters", filtersOf(twenty...)).ok(t)
	r := w.get("pro", path, "filters", filtersOf("query", "contains", "no query has this text")).ok(t)
	wantMetrics(t, "a filter that nothing passes", r.data()["totals"], figure{})
	r = w.get("pro", w.path("prefix", "/queries"), "filters", filtersOf("query", "contains", "no query has this text")).ok(t)
	if r.rows() == nil || len(r.rows()) != 0 {
		t.Errorf("a filter that matches nothing gives %s", r.body)
	}
}

// brand and non-brand, is and is_not of a group: every row is in exactly one of the two.
func TestFilters200Partition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := func(endpoint string, filter ...string) map[string]bool {
		query := []string{"limit", "1000", "date_range", "last_7d", "order_by", "key"}
		if len(filter) > 0 {
			query = append(query, "filters", filtersOf(filter...))
		}
		set := map[string]bool{}
		for _, row := range w.get("pro", w.path("main", endpoint), query...).ok(t).rows() {
			set[row.(map[string]any)["key"].(string)] = true
		}
		return set
	}
	brand := regexp.MustCompile(`(?is)example|^exmaple$|(?:^ex[a-z]+ple shop)`)
	blog := regexp.MustCompile(`(?is)^[a-z]+://[^/]+/blog/|guide`)
	home := regexp.MustCompile(`(?is)^[a-z]+://[^/]+/$`)
	for _, c := range []struct {
		name, endpoint, dimension, inside, outside string
		belongs                                    func(string) bool
		opposite                                   string
	}{
		{"brand", "/queries", "brand", "brand", "non-brand", brand.MatchString, "is"},
		{"blog", "/pages", "page_group", "Blog", "Blog", blog.MatchString, "is_not"},
		{"home", "/pages", "page_group", "Home", "Home", home.MatchString, "not_equals"},
		{"numbers", "/pages", "page_group", "Numbers", "Numbers", regexp.MustCompile("[0-9]$").MatchString, "is_not"},
	} {
		w.run(c.name, func(t *testing.T) {
			inside := keys(c.endpoint, c.dimension, "is", c.inside)
			outside := keys(c.endpoint, c.dimension, c.opposite, c.outside)
			if len(inside) == 0 || len(outside) == 0 {
				t.Fatalf("%d inside, %d outside: the case shows nothing", len(inside), len(outside))
			}
			for key := range inside {
				if outside[key] || !c.belongs(key) {
					t.Errorf("%q is inside, belongs: %v, outside too: %v", key, c.belongs(key), outside[key])
				}
			}
			for key := range outside {
				if c.belongs(key) {
					t.Errorf("%q is outside and belongs inside", key)
				}
			}
			if len(inside)+len(outside) < 1000 {
				union := maps.Clone(inside)
				maps.Copy(union, outside)
				if every := keys(c.endpoint); !maps.Equal(union, every) {
					t.Errorf("%d inside and %d outside are not the %d rows", len(inside), len(outside), len(every))
				}
			}
		})
	}
	if !maps.Equal(keys("/queries", "brand", "equals", "brand"), keys("/queries", "brand", "is_not", "non-brand")) ||
		!maps.Equal(keys("/queries", "brand", "not_equals", "brand"), keys("/queries", "brand", "is", "non-brand")) {
		t.Error("not non-brand is not brand")
	}
}

// A virtual dimension that the property's owner has not configured is refused.
func TestFilters400WithoutSegments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.sim.Calls()
	for _, endpoint := range []string{"/summary", "/timeseries", "/queries", "/pages", "/countries", "/devices"} {
		for _, property := range []string{"prefix", "archived"} {
			path := w.path(property, endpoint)
			w.get("pro", path, "filters", filtersOf("brand", "is", "brand")).want(t, http.StatusBadRequest, codeValidation, "filters[0]", "brand")
			w.get("pro", path, "filters", filtersOf("device", "is", "mobile", "page_group", "is", "Blog")).
				want(t, http.StatusBadRequest, codeValidation, "filters[1]", "Blog")
		}
	}
	if after := w.sim.Calls(); after != before {
		t.Errorf("the upstream was asked: %+v, before %+v", after, before)
	}
}

// Malformed filters are refused by each endpoint that accepts filters.
func TestFilters400NeverReachTheUpstream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.sim.Calls()
	// The test of /summary covers all of them.
	for i, endpoint := range []string{"/timeseries", "/queries", "/pages", "/countries", "/devices"} {
		for j, c := range filterRefusals() {
			if j%5 != i {
				continue
			}
			w.get("pro", w.path("main", endpoint)+"?"+c.query).want(t, http.StatusBadRequest, c.code, c.names)
		}
	}
	if after := w.sim.Calls(); after != before {
		t.Errorf("the upstream was asked: %+v, before %+v", after, before)
	}
}
