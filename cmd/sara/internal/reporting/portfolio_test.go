package reporting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A property that is archived may lack the days of the range for good. That its answer failed for another reason leaves the report
// incomplete.
func TestOnlyDaysThatNeverWereEndAProperty(t *testing.T) {
	for code, complete := range map[string]bool{
		"VALIDATION_ERROR": true, "DATE_RANGE_TOO_OLD": true,
		"INTERNAL_ERROR": false, "NOT_FOUND": false, "QUOTA_EXCEEDED": false,
	} {
		now := func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }
		c := Config{Now: now, Question: Question{Preset: "last_7d", Format: "json"},
			Client: &Client{URL: "http://sara.example", Key: "k", Now: now, Transport: &answers{list: []answer{
				{status: 200, body: `{"success":true,"data":{"rows":[{"property_id":"1","totals":{"clicks":1}},` +
					`{"property_id":"2","error":{"code":"` + code + `","message":"no"}}]},
				"meta":{"total":2,"date_range":{"start_date":"2026-11-17","end_date":"2026-11-23"}}}`},
				{status: 200, body: `{"success":true,"data":{"key":{"scopes":["properties:read","performance:read"]}}}`},
				{status: 200, body: `{"success":true,"data":{"rows":[{"id":"1"}]}}`},
			}}}}
		_, err := WritePortfolio(t.Context(), c, io.Discard)
		if _, incomplete := errors.AsType[*IncompleteError](err); incomplete == complete || !incomplete && err != nil {
			t.Errorf("%s: %v, want a complete report: %t", code, err, complete)
		}
	}
}

// A warmingServer is a server of so many properties, each with more clicks than the one before. The last one is late: in the first answers
// it has no figures, so that it is the last row of the last page, and then it is the first row of the first page.
type warmingServer struct {
	properties, late, sent int
}

// RoundTrip implements http.RoundTripper.
func (s *warmingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var rows []string
	for i := 1; i <= s.properties; i++ {
		row := fmt.Sprintf(`{"property_id":"%d","totals":{"clicks":%d},"error":null}`, i, i)
		if i == s.properties && s.sent < s.late {
			rows = slices.Insert(rows, 0, fmt.Sprintf(`{"property_id":"%d","totals":null,"error":{"code":"UPSTREAM_UNAVAILABLE","message":"late"}}`, i))
			continue
		}
		rows = append(rows, row)
	}
	slices.Reverse(rows)
	notes := `["a note on all properties"]`
	if s.sent < s.late {
		notes = `["a note on all properties", "1 property has no figures"]`
	}
	s.sent++
	number := func(name string) int {
		n, err := strconv.Atoi(r.URL.Query().Get(name))
		if err != nil {
			panic(err)
		}
		return n
	}
	from := min(number("offset"), len(rows))
	body := fmt.Sprintf(`{"success":true,"data":{"rows":[%s]},"meta":{"total":%d,"notes":%s,
		"date_range":{"start_date":"2026-11-17","end_date":"2026-11-23"}}}`,
		strings.Join(rows[from:min(len(rows), from+number("limit"))], ","), len(rows), notes)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A property whose figures come while the pages are read moves to a page that was read before. The report has it all the same, and no note that
// it has no figures.
func TestAPropertyThatMovesBetweenPagesIsInThePortfolio(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }
	server := &warmingServer{properties: 2*propertiesPerRequest + 1, late: 3}
	c := Config{Now: now, Question: Question{Preset: "last_7d", Format: NDJSON},
		Client: &Client{URL: "http://sara.example", Key: "k", Now: now, Transport: server}}
	var out bytes.Buffer
	result, err := WritePortfolio(t.Context(), c, &out)
	if err != nil || result.Properties != server.properties || !slices.Equal(result.Notes, []string{"a note on all properties"}) {
		t.Fatalf("%+v, %v", result, err)
	}
	for i := 1; i <= server.properties; i++ {
		if n := strings.Count(out.String(), fmt.Sprintf(`"property_id":"%d","totals":{"clicks":%d}`, i, i)); n != 1 {
			t.Errorf("property %d is in the portfolio %d times", i, n)
		}
	}
}

// The advice to repeat the command is for what passes.
func TestAnOutageIsNoRefusal(t *testing.T) {
	for status, refused := range map[int]bool{401: true, 403: true, 429: false, 500: false, 503: false} {
		if e := (&IncompleteError{Cause: &APIError{Status: status}}); e.IsRefused() != refused {
			t.Errorf("%d is a refusal: %t", status, e.IsRefused())
		}
	}
}

// A limit that ends a portfolio of chosen properties says when to go on.
func TestAPortfolioThatStopsSaysWhenToGoOn(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }
	c := Config{Now: now, Question: Question{Select: []string{"a", "b"}, Preset: "last_7d", Format: "json"},
		Client: &Client{URL: "http://sara.example", Key: "k", Now: now,
			Patience: time.Minute, Waiting: func(string, time.Time, error) {}, Transport: &answers{list: []answer{
				{status: 200,
					body: `{"success":true,"data":{"rows":[{"id":"1","slug":"a","archived":false},{"id":"2","slug":"b","archived":false}]},"meta":{"total":2}}`},
				{status: 200, body: `{"success":true,"data":{"totals":{"clicks":1}},"meta":{"date_range":{"start_date":"2026-11-17","end_date":"2026-11-23"}}}`},
				refusal(429, "QUOTA_EXCEEDED", "7200"),
			}}}}
	_, err := WritePortfolio(t.Context(), c, io.Discard)
	incomplete, ok := errors.AsType[*IncompleteError](err)
	if !ok || incomplete.Cause == nil || !incomplete.GoOnAt.Equal(now().Add(2*time.Hour)) {
		t.Errorf("%T %v", err, err)
	}
}

// A portfolio of chosen properties has the order of that of all: ties by name, in whatever case, and those without figures last.
func TestChosenPropertiesHaveTheOrderOfThePortfolio(t *testing.T) {
	t.Parallel()
	made := func(id, name, clicks string, err error) row {
		body := `{"data":{"totals":{"clicks":` + clicks + `}},"meta":{"source":"live"}}`
		return newRow(Property{ID: id, Name: name}, []byte(body), err)
	}
	p, err := joined([]row{made("1", "Failed", "9", errors.New("late")), made("2", "alpha", "1", nil), made("3", "Zebra", "0", nil),
		made("5", "Beta", "0", nil), made("4", "beta", "0", nil), made("6", "Zulu", "2", nil)})
	if err != nil {
		t.Fatal(err)
	}
	var order string
	for _, property := range p.properties() {
		order += property.ID
	}
	if order != "624531" {
		t.Errorf("the order is %s", order)
	}
}
