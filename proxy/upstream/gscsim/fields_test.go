package gscsim_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	searchconsole "google.golang.org/api/searchconsole/v1"
)

// A partial response has the selected members of the whole one, unchanged and in the same order.
func TestAnswersHaveTheSelectedFields(t *testing.T) {
	s := start(t, testConfig())
	f := func(fields, request, want string) {
		t.Helper()
		path := queryPath
		if fields != "" {
			path += "&fields=" + url.QueryEscape(fields)
		}
		if code, body := s.post(t, path, `{"startDate":"2026-08-13","endDate":"2026-08-16",`+request+`}`); code != 200 || body != want {
			t.Errorf("%s: %d %s, want %s", fields, code, body, want)
		}
	}
	const device = `"dimensions":["device"],"rowLimit":2`
	whole := `{"rows":[` +
		`{"keys":["MOBILE"],"clicks":1869,"impressions":16159,"ctr":0.11566309796398291,"position":11.022278606349403},` +
		`{"keys":["DESKTOP"],"clicks":1181,"impressions":10208,"ctr":0.1156935736677116,"position":10.017927115987462}],` +
		`"responseAggregationType":"byProperty"}`
	f("", device, whole)
	f("responseAggregationType,rows", device, whole)
	without := whole
	for _, ctr := range []string{`"ctr":0.11566309796398291,`, `"ctr":0.1156935736677116,`} {
		without = strings.Replace(without, ctr, "", 1)
	}
	f("rows(keys,clicks,impressions,position),responseAggregationType,metadata", device, without)
	f("rows/clicks,rows(keys)", device, `{"rows":[{"keys":["MOBILE"],"clicks":1869},{"keys":["DESKTOP"],"clicks":1181}]}`)
	f("rows/clicks,rows", device, strings.Replace(whole, `,"responseAggregationType":"byProperty"`, "", 1))
	f("metadata", device, `{}`)
	f("metadata/firstIncompleteDate", `"dimensions":["date"],"dataState":"all"`, `{"metadata":{"firstIncompleteDate":"2026-08-15"}}`)
	f("rows/keys,responseAggregationType",
		`"dimensions":["date"],"dimensionFilterGroups":[{"filters":[{"dimension":"query","expression":"none"}]}],"startRow":9`,
		`{"responseAggregationType":"byProperty"}`)
	f("rows(keys,clicks)", `"rowLimit":1`, `{"rows":[{"clicks":3213}]}`)
}

func TestFieldsThatTheServiceRefuses(t *testing.T) {
	s := start(t, testConfig())
	for fields, named := range map[string]string{
		"row": "row", "rows(click)": "rows/click", "rows/keys/length": "rows/keys/length", "metadata,rows(clicks),Rows": "Rows",
		"rows(": "rows(", "rows)": "rows)", "rows(clicks": "rows(clicks", "rows,": "rows,", ",rows": ",rows", "rows/": "rows/",
		"rows()": "rows()", "rows(clicks)keys": "rows(clicks)keys",
	} {
		code, body := s.post(t, queryPath+"&fields="+url.QueryEscape(fields), `{"startDate":"2026-08-08","endDate":"2026-08-14"}`)
		checkInvalid(t, fields, code, body, "Invalid field selection "+named)
	}
}

func TestGoogleClientSelectsFields(t *testing.T) {
	s := start(t, testConfig())
	request := lastWeek(&searchconsole.SearchAnalyticsQueryRequest{Dimensions: []string{"DEVICE"}})
	whole := s.ask(t, request)
	part, err := s.api.Searchanalytics.Query(domainSite, request).Fields("rows(keys,clicks)", "responseAggregationType").Do()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range whole.Rows {
		row.Impressions, row.Ctr, row.Position = 0, 0, 0
	}
	same := func(a, b *searchconsole.ApiDataRow) bool {
		return slices.Equal(a.Keys, b.Keys) && a.Clicks == b.Clicks && a.Impressions == b.Impressions && a.Ctr == b.Ctr && a.Position == b.Position
	}
	if !slices.EqualFunc(part.Rows, whole.Rows, same) || part.ResponseAggregationType != "byProperty" {
		t.Errorf("got %+v, want the keys and clicks of %+v", part.Rows, whole.Rows)
	}
}
