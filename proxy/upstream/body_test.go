package upstream

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"google.golang.org/api/searchconsole/v1"

	"sara/translate"
)

// bodyConditions are conditions of every filter dimension and operator, and of texts that need escaping.
func bodyConditions(t *testing.T) [][]translate.Condition {
	t.Helper()
	segments := translate.Segments{
		BrandTerms: []translate.BrandTerm{{Term: "acme", MatchType: "contains"}, {Term: "ac+me", MatchType: "regex"}},
		PageGroups: []translate.PageGroup{{Name: "blog", Rules: []translate.PageRule{{Type: "prefix", Value: "https://www.example.com/blog/"}}}},
	}
	values := map[string]string{"query": "shoes", "page": "https://www.example.com/a", "country": "deu", "device": "MOBILE",
		"brand": "brand", "page_group": "blog"}
	lists := [][]translate.Condition{nil}
	var valid []translate.Filter
	for _, dimension := range translate.FilterDimensions() {
		for _, operator := range translate.FilterOperators() {
			text, err := json.Marshal([]map[string]string{{"dimension": dimension, "operator": operator, "value": values[dimension]}})
			if err != nil {
				t.Fatal(err)
			}
			filters, err := translate.ParseFilters(string(text))
			if err != nil {
				continue // the dimension does not take this operator
			}
			conditions, err := translate.Conditions(filters, segments)
			if err != nil {
				t.Fatal(err)
			}
			lists, valid = append(lists, conditions), append(valid, filters...)
		}
	}
	if len(valid) < 20 {
		t.Fatalf("%d filters are valid: the loop does not find them", len(valid))
	}
	all, err := translate.Conditions(valid[:translate.MaxFilters], segments)
	if err != nil {
		t.Fatal(err)
	}
	odd := []translate.Condition{{Dimension: "query", Operator: "contains", Expression: "a\"b\\c/d\u2028é😀<&>\x01\t"}}
	return append(lists, all, odd)
}

// bodyQueries are the queries of every kind of fetch.
func bodyQueries(t *testing.T) []translate.Query {
	t.Helper()
	period := translate.DateRange{Start: translate.NewDate(2026, 2, 1), End: translate.NewDate(2026, 11, 19)}
	var queries []translate.Query
	for _, conditions := range bodyConditions(t) {
		queries = append(queries, translate.SeriesQuery(site, period, conditions))
		for by := translate.ByQuery; by <= translate.ByDevice; by++ {
			for _, order := range []translate.Order{{By: "clicks", Descending: true}, {By: "position"}} {
				queries = append(queries, translate.SampleQuery(site, by, period, conditions, order, 1))
			}
		}
	}
	for by := translate.ByQuery; by <= translate.ByDevice; by++ {
		queries = append(queries, translate.WideQuery(site, by, period), translate.DayQuery(site, by, period.Start, 100))
	}
	return queries
}

// Google's own type must read every member of a query's body as it was meant.
func TestQueryBodyIsGooglesRequest(t *testing.T) {
	for _, q := range bodyQueries(t) {
		body := q.Body()
		var got searchconsole.SearchAnalyticsQueryRequest
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		want := searchconsole.SearchAnalyticsQueryRequest{
			StartDate: q.Range.Start.String(), EndDate: q.Range.End.String(), Dimensions: []string{q.Dimension.String()},
			Type: "web", DataState: "final", RowLimit: int64(q.RowLimit),
		}
		if len(q.Conditions) > 0 {
			group := &searchconsole.ApiDimensionFilterGroup{GroupType: "and"}
			for _, c := range q.Conditions {
				group.Filters = append(group.Filters, &searchconsole.ApiDimensionFilter{
					Dimension: c.Dimension, Operator: c.Operator, Expression: c.Expression})
			}
			want.DimensionFilterGroups = []*searchconsole.ApiDimensionFilterGroup{group}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v", body, got, want)
		}
		if ours, googles := membersOf(t, body), membersOf(t, marshal(t, want)); !reflect.DeepEqual(ours, googles) {
			t.Errorf("the members are %v, want %v", ours, googles)
		}
	}
}

// membersOf decodes JSON with the exact names of its members, which a struct would match in any case.
func membersOf(t *testing.T, data []byte) (decoded map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}
