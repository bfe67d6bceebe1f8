package translate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Any query string is refused with a reason, or all its values are within their bounds.
func FuzzParse(f *testing.F) {
	for i, query := range []string{"", "date_range=last_7d&compare=previous_period", "limit=1000&order_by=-ctr",
		"start_date=2026-06-01&end_date=2026-06-30", "limit=5&offset=10&include_archived=true", "min_clicks=3&limit=50", "li%6Dit=%31", "limit",
		"limit=%zz", "limit=%00", "a=\xff", "&&=&", "limit=1&limit=2",
		"filters=%5B%7B%22dimension%22%3A%22query%22%2C%22operator%22%3A%22is%22%2C%22value%22%3A%22a+b%22%7D%5D",
		"start_date=1970-01-01&end_date=1970-01-01"} {
		f.Add(uint8(i), query)
	}
	all := []Endpoint{Endpoint{}, Summary(), Timeseries(), Breakdown(), Movers(), Properties(), Annotations(), Indexing(), IndexedURLs()}
	w := window()
	f.Fuzz(func(t *testing.T, endpoint uint8, query string) {
		e := all[int(endpoint)%len(all)]
		raw := []byte(query)
		params, err := Parse(e, raw, w)
		overwrite(raw)
		if err != nil {
			checkInputError(t, err)
			return
		}
		values, err := url.ParseQuery(strings.ReplaceAll(query, ";", "%3B"))
		if err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		for name, given := range values {
			if len(given) != 1 || given[0] == "" || !utf8.ValidString(given[0]) || strings.Contains(given[0], "\x00") {
				t.Fatalf("accepted %s as %q", name, given)
			}
			if !slices.ContainsFunc(e.Params, func(p Param) bool { return p.Name == name }) {
				t.Fatalf("accepted the unknown %q", name)
			}
		}
		checkParams(t, e, params, w)
	})
}

func checkInputError(t *testing.T, err error) {
	t.Helper()
	var input *InputError
	if !errors.As(err, &input) || input.Message == "" || len(input.Message) > 2000 || !utf8.ValidString(input.Message) ||
		input.Code != CodeValidation && input.Code != CodeUnsupportedParameter && input.Code != CodeDateRangeTooOld {
		t.Fatalf("refused with %#v", err)
	}
}

func checkParams(t *testing.T, e Endpoint, params *Params, w Window) {
	t.Helper()
	for _, p := range e.Params {
		n, ok := map[string]int{"limit": params.Limit, "offset": params.Offset, "min_clicks": params.MinClicks}[p.Name]
		if ok && (n < p.Min || p.Max > 0 && n > p.Max || n > 1_000_000_000) {
			t.Fatalf("%s is %d", p.Name, n)
		}
		if p.Name == "order_by" && !slices.Contains(Orders(), strings.Repeat("-", map[bool]int{true: 1}[params.Order.Descending])+params.Order.By) {
			t.Fatalf("order %v", params.Order)
		}
		if p.Name == "days" && params.TrendDays != 30 && params.TrendDays != 90 && params.TrendDays != 365 {
			t.Fatalf("days %d", params.TrendDays)
		}
		if p.Name == "sort" && !slices.Contains(URLOrders(), params.Order.By) {
			t.Fatalf("sort %v", params.Order)
		}
		if p.Name == "q" && utf8.RuneCountInString(params.Contains) > 2048 {
			t.Fatalf("q has %d bytes", len(params.Contains))
		}
		if p.Name == "date_range" {
			known := params.Period.Preset == PresetCustom || slices.Contains(Presets(), params.Period.Preset)
			if !known || params.Period.Start > params.Period.End || params.Period.End > w.Anchor || params.Span().Start < w.Earliest ||
				params.Span().End != params.Period.End {
				t.Fatalf("period %v", params.Period)
			}
		}
	}
	checkFilters(t, params.Filters)
}

func checkFilters(t *testing.T, filters []Filter) {
	t.Helper()
	if len(filters) > MaxFilters {
		t.Fatalf("%d filters", len(filters))
	}
	for _, filter := range filters {
		if n := utf8.RuneCountInString(filter.Value); n < 1 || n > 200 || !slices.Contains(FilterDimensions(), filter.Dimension) ||
			!slices.Contains(FilterOperators(), filter.Operator) || !utf8.ValidString(filter.Value) {
			t.Fatalf("filter %q", filter)
		}
	}
}

// Any filters are refused, or each element is a filter with the values that encoding/json reads, and a condition of the
// query: there are never unfiltered numbers under a filtered label.
func FuzzParseFilters(f *testing.F) {
	for _, filters := range []string{"[]", "null", "[{}]", `[{"dimension":"query","operator":"is","value":"a"}]`,
		oneFilter("country", "is", "USA"), oneFilter("brand", "is_not", "brand"), oneFilter("page_group", "is", "blog"),
		oneFilter("query", "regex", "(a|b)+"), oneFilter("query", "is", `\ud83d\ude00\n`), oneFilter("device", "regex", `\\Qm`),
		`[{"v\u0061lue":"a","value":"b"}]`, oneFilter("device", "is", "mobıle"), "[[]]", "[1,2]", " [ { } ] ",
		`[{"dimension":"query","operator":"is","value":"\ud800"}]`} {
		f.Add(filters)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[")+strings.Count(text, "{") > 9000 {
			return // nested deeper than encoding/json supports
		}
		filters, err := ParseFilters(text)
		if err != nil {
			checkInputError(t, err)
			return
		}
		want, ok := referenceFilters(text)
		if !ok || len(filters) != len(want) {
			t.Fatalf("%q was read as %q, the reference %q", text, filters, want)
		}
		checkFilters(t, filters)
		groups := segments()
		for i, filter := range filters {
			if filter.Dimension != want[i].Dimension || !strings.EqualFold(filter.Value, want[i].Value) {
				t.Fatalf("%q was read as %q", want[i], filter)
			}
			if filter.Dimension == "page_group" {
				groups.PageGroups = append(groups.PageGroups, PageGroup{Name: filter.Value, Rules: []PageRule{{Type: "prefix", Value: "/"}}})
			}
		}
		conditions, err := Conditions(filters, groups)
		if err != nil || len(conditions) == 0 != (len(filters) == 0) {
			t.Fatalf("%q became %q, %v", filters, conditions, err)
		}
		if body := SeriesQuery("s", DateRange{}, conditions).Body(); !json.Valid(body) || bytes.Contains(body, []byte("expression")) != (len(filters) > 0) {
			t.Fatalf("%q has the query %s", filters, body)
		}
	})
}

// handwrittenBody is an independent encoder of the upstream request.
func handwrittenBody(q Query) []byte {
	body := fmt.Appendf(nil, `{"startDate":"%s","endDate":"%s","dimensions":["%s"],"type":"web","dataState":"final","rowLimit":%d`,
		q.Range.Start, q.Range.End, q.Dimension, q.RowLimit)
	for i, c := range q.Conditions {
		body = append(body, []string{`,"dimensionFilterGroups":[{"groupType":"and","filters":[`, ","}[min(i, 1)]...)
		body = appendString(append(body, `{"dimension":`...), c.Dimension)
		body = appendString(append(body, `,"operator":`...), c.Operator)
		body = append(appendString(append(body, `,"expression":`...), c.Expression), '}')
	}
	if len(q.Conditions) > 0 {
		body = append(body, "]}]"...)
	}
	return append(body, '}')
}

// Body equals the handwritten encoder byte for byte, and keys are equal if and only if bodies are.
func FuzzQueryBodyAndKey(f *testing.F) {
	f.Add(uint8(1), int32(20_000), int32(20_027), 1001, "query", "contains", "shoes", uint8(1), int32(20_000), int32(20_027), 1001,
		"query", "contains", "shoes")
	f.Add(uint8(0), int32(0), int32(1), 25_000, "page", "equals", "a\"<\\\u2028\x00é&", uint8(4), int32(-1), int32(1), 0, "", "", "")
	f.Add(uint8(1), int32(0), int32(0), 1, "ab", "c", "", uint8(1), int32(0), int32(0), 1, "a", "bc", "")
	f.Fuzz(func(t *testing.T, by1 uint8, start1, end1 int32, limit1 int, dimension1, operator1, expression1 string,
		by2 uint8, start2, end2 int32, limit2 int, dimension2, operator2, expression2 string) {
		query := func(by uint8, start, end int32, limit int, texts ...string) Query {
			for i := range texts {
				texts[i] = strings.ToValidUTF8(texts[i], "?")
			}
			q := Query{Dimension: Dimension(by % 5), Range: DateRange{Date(start), Date(end)}, RowLimit: limit}
			for range by / 5 % 3 {
				q.Conditions = append(q.Conditions, Condition{texts[0], texts[1], texts[2]})
			}
			return q
		}
		a := query(by1, start1, end1, limit1, dimension1, operator1, expression1)
		b := query(by2, start2, end2, limit2, dimension2, operator2, expression2)
		for _, q := range []Query{a, b} {
			if got, want := q.Body(), handwrittenBody(q); !bytes.Equal(got, want) || !json.Valid(got) {
				t.Fatalf("the body is %s, want %s", got, want)
			}
		}
		if sameBody, sameKey := bytes.Equal(a.Body(), b.Body()), bytes.Equal(a.AppendKey(nil), b.AppendKey(nil)); sameBody != sameKey {
			t.Fatalf("equal bodies: %v, equal keys: %v, for %s and %s", sameBody, sameKey, a.Body(), b.Body())
		}
	})
}

// ReadRows accepts and reads the same as encoding/json under the same rules, and the result can be encoded.
func FuzzReadRows(f *testing.F) {
	for _, body := range []string{"{}", `{"rows":[]}`, "{}\x00", `{"rows":null}`,
		string(upstreamBody(2)), oneRow(`\ud83d\ude00\ud800\n`, "12.0", "1.2E1", "9.8E-4", "1"),
		`{"row\u0073":[{"keys":["a"],"clicks":1,"impressions":2}]}`, oneRow("a\xff", "-0", "01", "1e400", "1."), oneRow("2026-06-12", "1", "2", "0.5", "3"),
		`{"x":{"y":[1,{"z":null}]},"rows":[{"x":"\"","keys":["k"],"clicks":1,"impressions":1}],"responseAggregationType":"byPage"}`,
		`{"rows":[{"keys":["a"],"keys":["b"]}]}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > 900 {
			return // ReadRows bounds nesting more than encoding/json
		}
		given := bytes.Clone(body)
		rows, err := readRows(body, ByQuery)
		want, wantErr := referenceRows(given)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, the reference %v", body, err, wantErr)
		}
		if !bytes.Equal(body, given) {
			t.Fatal("the body was written to")
		}
		if _, err := readSeries(body, DateRange{Start: day("2026-06-07"), End: day("2026-06-13")}); err == nil && wantErr != nil {
			t.Fatal("a series of a body that has no rows to read")
		}
		if err != nil {
			return
		}
		if err := sameRows(rows, want); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		for _, order := range Orders() {
			params := &Params{Limit: 1000, Order: parseOrder(order)}
			checkAnswer(t, breakdownHead(nil, params, ByQuery, rows, Origin{Source: SourceLive}))
		}
		checkAnswer(t, moversHead(nil, &Params{Limit: 50}, ByQuery, rows, &Rows{}, Origin{Source: SourceLive}))
	})
}

func checkAnswer(t *testing.T, a Head) {
	t.Helper()
	if text := envelopeOf(a, "miss"); !json.Valid(text) || !utf8.Valid(text) {
		t.Fatalf("not JSON: %q", text)
	}
}

func FuzzUnescapePathSegment(f *testing.F) {
	for _, segment := range []string{"", "example.com", "sc-domain%3Aexample.com", "https%3A%2F%2Fexample.com%2F", "a+b", "%", "%zz",
		"%00", "%ff", "m%C3%BCnchen"} {
		f.Add(segment)
	}
	f.Fuzz(func(t *testing.T, segment string) {
		got, err := UnescapePathSegment(segment)
		if err != nil {
			checkInputError(t, err)
			return
		}
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("%q became %q", segment, got)
		}
		if again, err := UnescapePathSegment(url.PathEscape(got)); err != nil || again != got {
			t.Fatalf("%q became %q, and that, escaped again, %q, %v", segment, got, again, err)
		}
	})
}

// A brand term matches the same alone and beside another term, and every query is either brand or non-brand.
func FuzzBrandTerm(f *testing.F) {
	for _, seed := range [][2]string{{"acme", "buy ACME shoes"}, {"exact:a.b", "A.B"}, {"exact:a\nb", "a\nb"}, {"regex:a.c", "a\nc"},
		{"regex:(?-i)A|(?m)^b$", "x\nb"}, {"ſ", "S"}, {"ΣΑΣ", "σας"}, {`\Q`, `\q`}, {`regex:\Qa`, "a"}, {"regex:a)|(?:b", "b"},
		{"exact:", ""}, {"(", "("}, {"\u212a", "k"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, written, query string) {
		term, err := ParseBrandTerm(written)
		if err != nil || !utf8.ValidString(query) {
			return
		}
		terms := []BrandTerm{{Term: "other", MatchType: "exact"}, term}
		if err := CheckBrandTerms(terms); err != nil {
			if term.MatchType != "regex" {
				t.Fatalf("%q: %v", written, err)
			}
			return // an expression that is too large
		}
		conditions, err := Conditions([]Filter{{"brand", "equals", "brand"}, {"brand", "equals", "non-brand"}}, Segments{BrandTerms: terms})
		if err != nil || len(conditions) != 2 {
			t.Fatalf("%q: %v, %v", written, conditions, err)
		}
		want := matchesTerm(terms[0], query) || matchesTerm(term, query)
		if outside, inside := keeps(t, conditions[0], query), keeps(t, conditions[1], query); inside != want || outside == inside {
			t.Fatalf("%q with %q: brand %v, non-brand %v, want brand %v", query, written, inside, outside, want)
		}
	})
}

// referenceFilters reads filters with encoding/json. It checks the structure, not the values.
func referenceFilters(text string) (filters []Filter, ok bool) {
	var elements []json.RawMessage
	if strings.TrimSpace(text) == "null" || json.Unmarshal([]byte(text), &elements) != nil || len(elements) > MaxFilters {
		return nil, false
	}
	for _, element := range elements {
		members, ok := referenceMembers(element)
		if !ok || len(members) != 3 {
			return nil, false
		}
		var f Filter
		for name, field := range map[string]*string{"dimension": &f.Dimension, "operator": &f.Operator, "value": &f.Value} {
			if reflect.TypeOf(members[name]) != reflect.TypeFor[string]() {
				return nil, false
			}
			*field = members[name].(string)
		}
		filters = append(filters, f)
	}
	return filters, true
}

// referenceMembers decodes an object and refuses duplicate members.
func referenceMembers(object []byte) (map[string]any, bool) {
	d := json.NewDecoder(strings.NewReader(string(object)))
	d.UseNumber()
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	members := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value any
		if _, twice := members[name.(string)]; twice || d.Decode(&value) != nil {
			return nil, false
		}
		members[name.(string)] = value
	}
	_, err := d.Token()
	return members, err == nil
}

// A referenceRow is a row as encoding/json reads it.
type referenceRow struct {
	key string
	Metrics
}

// referenceRows reads an upstream body slowly with encoding/json, under the same rules as ReadRows.
func referenceRows(body []byte) ([]referenceRow, error) {
	document, err := members(body, "rows")
	if err != nil {
		return nil, err
	}
	if document["rows"] == nil {
		if document["responseAggregationType"] == nil {
			return nil, errors.New("not an answer")
		}
		return nil, nil
	}
	elements, err := elements(document["rows"])
	if err != nil {
		return nil, err
	}
	rows := make([]referenceRow, len(elements))
	for i, element := range elements {
		if rows[i], err = readReferenceRow(element); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func readReferenceRow(element []byte) (row referenceRow, err error) {
	found, err := members(element, "keys", "clicks", "impressions", "ctr", "position")
	if err != nil {
		return row, err
	}
	keys, err := elements(found["keys"])
	if err != nil || len(keys) != 1 || keys[0][0] != '"' {
		return row, fmt.Errorf("keys %s: %v", found["keys"], err)
	}
	if err := json.Unmarshal(keys[0], &row.key); err != nil {
		return row, err
	}
	number := func(name string, largest float64) (f float64) {
		text, given := found[name]
		if !given && name != "clicks" && name != "impressions" {
			return 0
		}
		if jsonErr := json.Unmarshal(text, &f); jsonErr != nil || text[0] == '-' || text[0] == 'n' || f > largest {
			err = fmt.Errorf("%s %s: %v", name, text, jsonErr)
		}
		return f
	}
	row.Clicks, row.Impressions = int64(math.Round(number("clicks", 1<<53))), int64(math.Round(number("impressions", 1<<53)))
	row.CTR, row.Position = number("ctr", math.MaxInt32), number("position", math.MaxInt32)
	if found["ctr"] == nil && row.Impressions > 0 {
		row.CTR = float64(row.Clicks) / float64(row.Impressions)
		if row.CTR > math.MaxInt32 {
			err = cmp.Or(err, errors.New("too many clicks"))
		}
	}
	return row, err
}

// members splits a JSON object into the raw text of its members. The given names must not be duplicated.
func members(object []byte, once ...string) (map[string]json.RawMessage, error) {
	if !json.Valid(object) || bytes.TrimLeft(object, " \t\r\n")[0] != '{' {
		return nil, fmt.Errorf("%.40q is not an object", object)
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	found := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := found[name.(string)]; twice && slices.Contains(once, name.(string)) {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		found[name.(string)] = value
	}
	return found, nil
}

// elements splits a JSON array; null and empty text have none.
func elements(array []byte) (elements []json.RawMessage, err error) {
	if len(array) == 0 || array[0] != '[' {
		return nil, fmt.Errorf("%.40q is not an array", array)
	}
	return elements, json.Unmarshal(array, &elements)
}

// sameRows describes how the rows differ from the reference.
func sameRows(rows *Rows, want []referenceRow) error {
	if rows.Len() != len(want) {
		return fmt.Errorf("%d rows, want %d", rows.Len(), len(want))
	}
	for i, row := range want {
		if string(rows.Key(i)) != row.key || rows.Metrics(i) != row.Metrics {
			return fmt.Errorf("row %d: %q %v, want %q %v", i, rows.Key(i), rows.Metrics(i), row.key, row.Metrics)
		}
	}
	return nil
}
