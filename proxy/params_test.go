package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sara/proxy/openapi"
	"sara/translate"
)

const (
	codeValidation  = "VALIDATION_ERROR"
	codeUnsupported = "UNSUPPORTED_PARAMETER"
	codeTooOld      = "DATE_RANGE_TOO_OLD"
)

// A refusal is a query string that must be refused, and what the message must name.
type refusal struct {
	query, code, names string
}

// wantText fails the test unless text contains every part.
func wantText(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s %q does not name %q", what, text, part)
		}
	}
}

// wantRefusedParameters checks that an endpoint refuses the query strings, and that none of them reaches the upstream.
func (w *world) wantRefusedParameters(property, endpoint string, lists ...[]refusal) {
	w.t.Helper()
	before := w.sim.Calls()
	for _, list := range lists {
		for _, c := range list {
			w.run(brief(c.query), func(t *testing.T) {
				path := w.path(property, endpoint)
				if property == "" {
					path = endpoint
				}
				w.get("pro", path+"?"+c.query).want(t, http.StatusBadRequest, c.code, c.names)
			})
		}
	}
	if after := w.sim.Calls(); after != before {
		w.t.Errorf("refused requests reached the upstream: %+v, before %+v", after, before)
	}
}

// brief shortens a query string to a subtest name.
func brief(query string) string {
	if len(query) > 60 {
		return query[:60]
	}
	return query
}

// unknownRefusals are refused by every endpoint.
func unknownRefusals() []refusal {
	return []refusal{
		{"nonsense=1", codeUnsupported, "nonsense"},
		{"nonsense", codeUnsupported, "nonsense"},
		{"Limit=1", codeUnsupported, "Limit"},
		{"limit%20=1", codeUnsupported, "limit "},
		{"%66oo=1", codeUnsupported, "foo"},
		{"=1", codeUnsupported, ""},
		{"api_key=1", codeUnsupported, "api_key"},
		{strings.Repeat("x", 500) + "=1", codeUnsupported, "xxx"},
		{"a%zz=1", codeValidation, "escape"},
		{"%ff=1", codeValidation, "UTF-8"},
		{"a%00=1", codeValidation, "NUL"},
		{"nonsense=1;limit=2", codeUnsupported, "nonsense"},
	}
}

// dateRefusals are refused by every endpoint with a period.
func dateRefusals() []refusal {
	list := []refusal{
		{"date_range=last_29d", codeValidation, "date_range"},
		{"date_range=LAST_7D", codeValidation, "date_range"},
		{"date_range=custom", codeValidation, "date_range"},
		{"date_range=last_7d%20", codeValidation, "date_range"},
		{"date_range=", codeValidation, "date_range"},
		{"date_range", codeValidation, "date_range"},
		{"date_range=last_7d&date_range=last_7d", codeValidation, "twice"},
		{"date_range=last_7d&d%61te_range=last_28d", codeValidation, "twice"},
		{"date_range=%zz", codeValidation, "date_range"},
		{"date_range=last_7d%", codeValidation, "date_range"},
		{"start_date=2026-11-01", codeValidation, "end_date"},
		{"end_date=2026-11-01", codeValidation, "start_date"},
		{"start_date=2026-11-01&date_range=last_7d", codeValidation, "end_date"},
		{"start_date=2026-11-10&end_date=2026-11-09", codeValidation, "2026-11-10"},
		{"start_date=2026-11-20&end_date=2026-11-20", codeValidation, "2026-11-19"},
		{"start_date=2026-11-20&end_date=2026-12-20", codeValidation, "2026-11-19"},
		{"start_date=2023-11-19&end_date=2023-11-25", codeTooOld, "2023-11-20"},
		{"start_date=1970-01-01&end_date=2026-11-19", codeTooOld, "2023-11-20"},
	}
	for _, day := range []string{"2026-13-01", "2026-02-30", "2026-2-03", "2026-02-3", "20260203", "2026/02/03", "02-03-2026", "today", "-1",
		"2026-02-03T00:00:00Z", "%202026-02-03", "+2026-02-03", "%D9%A2026-02-03", "2026-02-03%00", "1969-12-31", "10000-01-01", "0000-00-00"} {
		list = append(list,
			refusal{"start_date=" + day + "&end_date=2026-11-01", codeValidation, "start_date"},
			refusal{"start_date=2026-10-01&end_date=" + day, codeValidation, "end_date"})
	}
	return list
}

// sharedRefusals are refused by every endpoint with the shared performance parameters.
func sharedRefusals() []refusal {
	return append(append(unknownRefusals(), dateRefusals()...), filterRefusals()...)
}

func integerRefusals(name string, low, high int) []refusal {
	values := []string{"", "abc", "1.0", "1e1", "0x10", "%2B5", "+5", "%205", "5%20", "1_0", "--1", "99999999999999999999", "%D9%A3", "5%00",
		"null", "true", "-1", strconv.Itoa(low - 1)}
	if high > 0 {
		values = append(values, strconv.Itoa(high+1))
	}
	list := []refusal{{name + "=" + strconv.Itoa(low) + "&" + name + "=" + strconv.Itoa(low), codeValidation, name}}
	for _, value := range values {
		list = append(list, refusal{name + "=" + value, codeValidation, name})
	}
	return list
}

// Every endpoint refuses unknown parameters, by name.
func TestEveryEndpoint400UnsupportedParameter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range table() {
		has := map[string]bool{}
		for _, p := range r.Endpoint.Params {
			has[p.Name] = true
		}
		path := strings.Replace(r.Path, "{id}", w.properties["main"].ID, 1)
		for _, name := range []string{"limit", "offset", "order_by", "filters", "compare", "date_range", "start_date", "end_date", "min_clicks",
			"include_archived", "days", "include_trend", "bucket", "sort", "dir", "q"} {
			if !has[name] {
				w.run(r.Operation+"/"+name, func(t *testing.T) {
					w.get("pro", path, name, "1").want(t, http.StatusBadRequest, codeUnsupported, name)
				})
			}
		}
	}
}

// The route table has the parameters of the spec, and offset for tables.
func TestEveryEndpointHasTheParametersOfTheSpec(t *testing.T) {
	t.Parallel()
	const shared = "date_range start_date end_date filters"
	want := map[string]string{
		"getOpenAPI": "", "getAccount": "", "getProperty": "", "listBrandTerms": "", "listPageGroups": "",
		"listProperties": "limit offset include_archived", "listAnnotations": "start_date end_date", "listAnomalies": "start_date end_date",
		"getIndexing": "days include_trend", "listIndexedURLs": "bucket coverage_state sitemap_path q sort dir limit offset",
		"getSummary": shared + " compare", "getTimeseries": shared, "getPortfolio": "date_range start_date end_date compare order_by limit offset",
		"listQueries": shared + " limit offset order_by", "listPages": shared + " limit offset order_by",
		"listCountries": shared + " limit offset order_by", "listDevices": shared + " limit offset order_by",
		"listQueryMovers": "date_range start_date end_date limit min_clicks", "listPageMovers": "date_range start_date end_date limit min_clicks",
	}
	for _, r := range table() {
		var names []string
		for _, p := range r.Endpoint.Params {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want[r.Operation] {
			t.Errorf("%s takes %q, not %q", r.Operation, got, want[r.Operation])
		}
	}
}

// The plan bounds the start of a range, to the day.
func TestSummary400DateRangeTooOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ key, property, earliest, dayBefore string }{
		{"pro", "main", "2023-11-20", "2023-11-19"},
		{"agency", "main", "2021-11-20", "2021-11-19"},
	} {
		path := w.path(c.property, "/summary")
		w.get(c.key, path, "start_date", c.dayBefore, "end_date", "2026-11-19").want(t, http.StatusBadRequest, codeTooOld, c.earliest)
		// The earliest day itself is allowed; but nothing is archived, and it is out of the upstream's reach.
		w.get(c.key, path, "start_date", c.earliest, "end_date", c.earliest).want(t, http.StatusBadRequest, codeTooOld, liveFrom)
		for _, movers := range []string{"/movers/queries", "/movers/pages"} {
			w.get(c.key, w.path(c.property, movers), "start_date", c.earliest, "end_date", c.earliest).
				want(t, http.StatusBadRequest, codeTooOld, c.earliest)
		}
	}
}

// wantUnavailable requests what cannot be answered. A failing upstream is a 503; of days that no store has any more the request is
// a 400. Filters have a code of their own, and a Retry-After only if time may help.
func (w *world) wantUnavailable(endpoint string) {
	w.t.Helper()
	filters := []string{"filters", `[{"dimension":"device","operator":"equals","value":"mobile"}]`}
	for _, c := range []struct {
		name, property string
		query          []string
		status         int
		code           string
	}{
		{"before the live window", "main", []string{"start_date", "2025-07-01", "end_date", "2025-07-10"}, http.StatusBadRequest, codeTooOld},
		{"across the edge of the live window", "main", []string{"start_date", "2025-07-19", "end_date", "2025-07-25"}, http.StatusOK, ""},
		{"the previous year", "main", []string{"date_range", "previous_year"}, http.StatusOK, ""},
		{"archived", "archived", nil, http.StatusBadRequest, codeValidation},
		{"disconnected", "disconnected", nil, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable},
		{"disconnected, known by now", "disconnected", nil, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable},
		{"no access", "forbidden", nil, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable},
		{"no access, known by now", "forbidden", nil, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable},
	} {
		w.run(c.name, func(t *testing.T) {
			r := w.get("pro", w.path(c.property, endpoint), c.query...)
			switch {
			case c.status != http.StatusOK:
				r.want(t, c.status, c.code)
			case strings.Contains(endpoint, "movers"): // the period before has no live day
				r.want(t, http.StatusBadRequest, codeTooOld, liveFrom)
			default:
				wantText(t, "notes", notes(r.ok(t)), "not archived and not counted")
			}
		})
		if strings.Contains(endpoint, "movers") {
			continue
		}
		w.run(c.name+", filtered", func(t *testing.T) {
			r := w.get("pro", w.path(c.property, endpoint), append(filters, c.query...)...)
			var message []string
			if c.property == "main" {
				message = append(message, "no longer has days before "+liveFrom)
			}
			r.want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable, message...)
			if retry := r.header.Get("Retry-After"); (retry != "") != (c.status == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After is %q", retry)
			}
		})
	}
}

// A preset, its dates and the defaults are one request.
func TestEveryPresetIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, preset := range translate.Presets() {
		for _, endpoint := range []string{"/timeseries", "/movers/pages"} {
			r := w.get("pro", w.path("empty", endpoint), "date_range", preset)
			if r.status == http.StatusBadRequest && !strings.Contains(r.message(), "the first available day is "+liveFrom) {
				t.Errorf("%s?date_range=%s is refused: %s", endpoint, preset, r.message())
			}
		}
	}
}
