package translate_test

import (
	"fmt"
	"strings"

	"sara/translate"
)

// The way of a request: its parameters, the upstream query, and the response.
func ExampleParse() {
	today := translate.NewDate(2026, 6, 15)
	window := translate.NewWindow(today-2, 36)
	params, err := translate.Parse(translate.Breakdown(), []byte("date_range=last_7d&limit=1"+
		"&filters=%5B%7B%22dimension%22%3A%22brand%22%2C%22operator%22%3A%22is%22%2C%22value%22%3A%22non-brand%22%7D%5D"), window)
	if err != nil {
		fmt.Println(err)
		return
	}
	conditions, err := translate.Conditions(params.Filters, translate.Segments{
		BrandTerms: []translate.BrandTerm{{Term: "acme", MatchType: "contains"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	report := translate.BreakdownReport(translate.ByQuery)
	fetches := report.Plan(params, translate.Sources{Site: "sc-domain:example.com", Window: window}, conditions).Fetches
	fmt.Printf("%s\n", fetches[0].Upstream.Body())

	rows, err := translate.ReadRows(strings.NewReader(`{"rows":[
		{"keys":["running shoes"],"clicks":12,"impressions":48,"ctr":0.25,"position":3.5},
		{"keys":["shoe laces"],"clicks":1,"impressions":40,"ctr":0.025,"position":9}]}`), translate.ByQuery)
	if err != nil {
		fmt.Println(err)
		return
	}
	head, err := report.AppendHead(nil, params, fetches, []*translate.Rows{rows}, translate.Origin{PropertyID: "1", Source: translate.SourceLive})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", translate.AppendTail(head, "miss", "req_1"))
	// Output:
	// {"startDate":"2026-06-07","endDate":"2026-06-13","dimensions":["query"],"type":"web","dataState":"final","rowLimit":1001,"dimensionFilterGroups":[{"groupType":"and","filters":[{"dimension":"query","operator":"excludingRegex","expression":"(?is)(?:acme)"}]}]}
	// {"success":true,"data":{"dimension":"query","rows":[{"key":"running shoes","clicks":12,"impressions":48,"ctr":0.25,"position":3.5}]},"meta":{"property_id":"1","date_range":{"start_date":"2026-06-07","end_date":"2026-06-13","preset":"last_7d"},"row_count":1,"limit":1,"total":null,"truncated_by":"clicks","has_more":true,"source":"live","stale_reason":null,"notes":["Brand and non-brand figures do not add up to the total: Search Console withholds rare queries, which are in neither."],"cache":"miss","request_id":"req_1"}}
}

// The message names the parameter and the reason.
func ExampleInputError() {
	window := translate.NewWindow(translate.NewDate(2026, 6, 13), 36)
	_, err := translate.Parse(translate.Breakdown(), []byte("limit=5000"), window)
	fmt.Println(err)
	// Output: limit "5000" is not an integer from 1 to 1000
}
