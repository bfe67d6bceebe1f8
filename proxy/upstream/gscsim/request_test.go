package gscsim_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const queryPath = "/webmasters/v3/sites/sc-domain%3Aexample.com/searchAnalytics/query?prettyPrint=false"

func TestRequestsThatTheServiceRefuses(t *testing.T) {
	s := start(t, testConfig())
	filtered := func(filter string) string { return `"dimensionFilterGroups":[{"filters":[` + filter + `]}]` }
	for _, c := range []struct{ name, fields, message string }{
		{"duplicate dimensions", `"dimensions":["query","query"]`, "Duplicate dimensions are not allowed."},
		{"the same dimension in both spellings", `"dimensions":["query","QUERY"]`, "Duplicate dimensions are not allowed."},
		{"search appearance with another", `"dimensions":["searchAppearance","page"]`,
			"Cannot group by search appearance dimension together with another dimension."},
		{"date and hour", `"dimensions":["date","hour"],"dataState":"hourly_all"`, "Request cannot be grouped by both date and hour"},
		{"hour without hourly data", `"dimensions":["hour"]`, "Grouping by HOUR requires setting dataState=HOURLY_ALL"},
		{"hourly data without hour", `"dataState":"hourly_all"`, "Using dataState=HOURLY_ALL"},
		{"an unknown dimension", `"dimensions":["referrer"]`, "Invalid value at 'dimension[0]'"},
		{"an unknown second dimension", `"dimensions":["page","Query"]`, "Invalid value at 'dimension[1]'"},
		{"by property with the page dimension", `"dimensions":["page"],"aggregationType":"byProperty"`,
			"'BY_PROPERTY' is not a valid aggregation type in the context of the request."},
		{"by property with a page filter", `"aggregationType":"BY_PROPERTY",` + filtered(`{"dimension":"page","expression":"a"}`),
			"'BY_PROPERTY' is not a valid aggregation type in the context of the request."},
		{"by News Showcase panel", `"aggregationType":"byNewsShowcasePanel"`,
			"'BY_NEWS_SHOWCASE_PANEL' is not a valid aggregation type in the context of the request."},
		{"an unknown type", `"type":"maps"`, "Invalid value at 'type' (google.searchconsole.v1.searchanalytics.SearchType), \"maps\""},
		{"a type that is not simulated", `"type":"image"`, "Invalid value at 'type'"},
		{"an unknown data state", `"dataState":"hourlyAll"`, "Invalid value at 'data_state'"},
		{"an unknown aggregation", `"aggregationType":"bySite"`, "Invalid value at 'aggregation_type'"},
		{"no rows", `"rowLimit":0`, ""},
		{"too many rows", `"rowLimit":25001`, ""},
		{"a negative start", `"startRow":-1`, ""},
		{"an OR group", `"dimensionFilterGroups":[{"groupType":"or","filters":[]}]`, "Invalid value at 'dimension_filter_groups[0].group_type'"},
		{"a filter on date", filtered(`{"dimension":"date","expression":"2026-08-10"}`),
			"Invalid value at 'dimension_filter_groups[0].filters[0].dimension'"},
		{"a filter on hour", filtered(`{"dimension":"query","expression":"a"},{"dimension":"hour","expression":"a"}`),
			"Invalid value at 'dimension_filter_groups[0].filters[1].dimension'"},
		{"a filter on nothing", filtered(`{"expression":"a"}`), "Invalid value at 'dimension_filter_groups[0].filters[0].dimension'"},
		{"an unknown operator", filtered(`{"dimension":"query","operator":"startsWith","expression":"a"}`),
			"Invalid value at 'dimension_filter_groups[0].filters[0].operator'"},
		{"a lookahead", filtered(`{"dimension":"query","operator":"includingRegex","expression":"a(?=b)"}`), ""},
		{"a repeat count beyond RE2's", filtered(`{"dimension":"query","operator":"includingRegex","expression":"a{1001}"}`), ""},
		{"a regular expression too long",
			filtered(`{"dimension":"query","operator":"excludingRegex","expression":"` + strings.Repeat("ä", 4097) + `"}`), ""},
		{"an unknown field", `"limit":5`, `Invalid JSON payload received. Unknown name "limit": Cannot find field.`},
		{"a wrong type", `"dimensions":"query"`, "Invalid JSON payload received."},
	} {
		code, body := s.post(t, queryPath, `{"startDate":"2026-08-08","endDate":"2026-08-14",`+c.fields+`}`)
		checkInvalid(t, c.name, code, body, c.message)
	}
	for _, c := range []struct{ name, body string }{
		{"no body", ""},
		{"no dates", `{}`},
		{"no end", `{"startDate":"2026-08-08"}`},
		{"a day that is none", `{"startDate":"2026-02-30","endDate":"2026-08-14"}`},
		{"a time", `{"startDate":"2026-08-08T00:00:00Z","endDate":"2026-08-14"}`},
		{"an inverted range", `{"startDate":"2026-08-14","endDate":"2026-08-08"}`},
	} {
		code, body := s.post(t, queryPath, c.body)
		checkInvalid(t, c.name, code, body, "")
	}
}

// checkInvalid expects a 400 in the older envelope whose message starts with message.
func checkInvalid(t *testing.T, name string, code int, body, message string) {
	t.Helper()
	var e struct {
		Error struct {
			Code    int
			Message string
			Errors  []struct{ Message, Domain, Reason string }
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || code != 400 || e.Error.Code != 400 || len(e.Error.Errors) != 1 {
		t.Errorf("%s: %d %s", name, code, body)
		return
	}
	if item := e.Error.Errors[0]; !strings.HasPrefix(e.Error.Message, message) || item.Message != e.Error.Message ||
		item.Domain != "global" || item.Reason == "" {
		t.Errorf("%s: %s, want %q", name, body, message)
	}
}

func TestRequestsThatTheServiceAccepts(t *testing.T) {
	s := start(t, testConfig())
	for _, c := range []struct{ name, fields, aggregation string }{
		{"defaults", ``, "byProperty"},
		{"five dimensions", `,"dimensions":["date","query","page","country","device"],"rowLimit":10`, "byPage"},
		{"a page filter", `,"dimensionFilterGroups":[{"filters":[{"dimension":"page","operator":"contains","expression":"BLOG"}]}]`, "byPage"},
		{"by page without pages", `,"aggregationType":"byPage"`, "byPage"},
		{"the older name of the type", `,"searchType":"web"`, "byProperty"},
		{"numbers as strings", `,"rowLimit":"25000","startRow":"0"`, "byProperty"},
		{"hours by device", `,"dimensions":["hour","device"],"dataState":"hourly_all"`, "byProperty"},
		{"a filter named in any case", `,"dimensionFilterGroups":[{"groupType":"and","filters":[{"dimension":"DeVice","expression":"mobile"}]}]`,
			"byProperty"},
		{"the longest regular expression", `,"dimensionFilterGroups":[{"filters":[{"dimension":"query","operator":"excludingRegex","expression":"` +
			strings.Repeat("ä", 4096) + `"}]}]`, "byProperty"},
	} {
		code, body := s.post(t, queryPath, `{"startDate":"2026-08-08","endDate":"2026-08-14"`+c.fields+`}`)
		if code != 200 || !strings.Contains(body, fmt.Sprintf(`"responseAggregationType":%q`, c.aggregation)) || !strings.HasPrefix(body, `{"rows":[{`) {
			t.Errorf("%s: %d %.300s", c.name, code, body)
		}
	}
}

func TestEmptyAnswersHaveNoRows(t *testing.T) {
	s := start(t, testConfig())
	const nothing = `"dimensionFilterGroups":[{"filters":[{"dimension":"query","expression":"\u0001"}]}]`
	for name, body := range map[string]string{
		"before all data":   `{"startDate":"2020-01-01","endDate":"2020-12-31","dimensions":["date"]}`,
		"after all data":    `{"startDate":"2026-08-15","endDate":"2026-08-20"}`,
		"past the last row": `{"startDate":"2026-08-08","endDate":"2026-08-14","dimensions":["query"],"startRow":100000}`,
		"nothing matches":   `{"startDate":"2026-08-08","endDate":"2026-08-14",` + nothing + `}`,
		"no query matches":  `{"startDate":"2026-08-08","endDate":"2026-08-14","dimensions":["query"],` + nothing + `}`,
	} {
		if code, text := s.post(t, queryPath, body); code != 200 || text != `{"responseAggregationType":"byProperty"}` {
			t.Errorf("%s: %d %.200s", name, code, text)
		}
	}
	// By date alone, days without data are rows of zeros.
	_, text := s.post(t, queryPath, `{"startDate":"2026-08-13","endDate":"2026-08-20","dimensions":["date"],`+nothing+`}`)
	const zeros = `"clicks":0,"impressions":0,"ctr":0,"position":0}`
	if want := `{"rows":[{"keys":["2026-08-13"],` + zeros + `,{"keys":["2026-08-14"],` + zeros +
		`],"responseAggregationType":"byProperty"}`; text != want {
		t.Errorf("days without data: %s", text)
	}
}
