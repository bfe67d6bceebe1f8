package gscsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// queryRequest is the JSON body of a search analytics query.
type queryRequest struct {
	StartDate             string        `json:"startDate"`
	EndDate               string        `json:"endDate"`
	Dimensions            []string      `json:"dimensions"`
	Type                  *string       `json:"type"`
	SearchType            *string       `json:"searchType"`
	DimensionFilterGroups []filterGroup `json:"dimensionFilterGroups"`
	AggregationType       *string       `json:"aggregationType"`
	RowLimit              *wireInt      `json:"rowLimit"`
	StartRow              *wireInt      `json:"startRow"`
	DataState             *string       `json:"dataState"`
}

type filterGroup struct {
	GroupType *string  `json:"groupType"`
	Filters   []filter `json:"filters"`
}

type filter struct {
	Dimension  string  `json:"dimension"`
	Operator   *string `json:"operator"`
	Expression string  `json:"expression"`
}

// wireInt is an integer that may be a JSON number or, as usual in Google's JSON, a string.
type wireInt int64

func (n *wireInt) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = wireInt(v)
	return err
}

// decodeRequest reads a JSON body strictly: the real service rejects unknown fields.
func decodeRequest(body []byte, into any) *apiError {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	e := invalid("", "Invalid JSON payload received. %s", err)
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		e = invalid("", "Invalid JSON payload received. Unknown name %s: Cannot find field.", name)
	}
	e.reason = "badRequest"
	return e
}

// dimension groups rows.
type dimension uint8

const (
	byDate dimension = iota
	byQuery
	byPage
	byCountry
	byDevice
	byAppearance
	byHour
)

type dataState uint8

const (
	finalData dataState = iota
	allData
	hourlyData
)

type aggregation uint8

const (
	autoAggregation aggregation = iota
	propertyAggregation
	pageAggregation
	panelAggregation
)

// parsedQuery is a request that passed every check.
type parsedQuery struct {
	from, to    day
	dimensions  []dimension
	filters     []condition
	aggregation aggregation // propertyAggregation or pageAggregation
	state       dataState
	limit       int
	start       int
}

func (q *parsedQuery) groupedBy(d dimension) bool { return slices.Contains(q.dimensions, d) }

// parseEnum returns the index of text in names, each "wireName ENUM_NAME". The API accepts both spellings and no others.
func parseEnum(text string, names ...string) (int, bool) {
	for i, name := range names {
		wire, enum, _ := strings.Cut(name, " ")
		if text == wire || text == enum {
			return i, true
		}
	}
	return 0, false
}

func dimensionNames() []string {
	return []string{"date DATE", "query QUERY", "page PAGE", "country COUNTRY", "device DEVICE", "searchAppearance SEARCH_APPEARANCE", "hour HOUR"}
}

// parse validates a request.
func (r *queryRequest) parse() (*parsedQuery, *apiError) {
	q := &parsedQuery{limit: 1000}
	for _, step := range []func(*parsedQuery) *apiError{
		r.parseDates, r.parseDimensions, r.parseEnums, r.parseRows, r.parseFilters, r.checkGrouping, r.resolveAggregation,
	} {
		if err := step(q); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (r *queryRequest) parseDates(q *parsedQuery) *apiError {
	for _, f := range []struct {
		name, text string
		into       *day
	}{{"start_date", r.StartDate, &q.from}, {"end_date", r.EndDate, &q.to}} {
		if f.text == "" {
			return invalid(f.name, "Required field missing: %s", f.name)
		}
		d, ok := parseDay(f.text)
		if !ok {
			return invalid(f.name, "Invalid value at '%s', %s", f.name, quoted(f.text))
		}
		*f.into = d
	}
	if q.from > q.to {
		return invalid("start_date", "'start_date' must be before or equal to 'end_date'.")
	}
	return nil
}

func (r *queryRequest) parseDimensions(q *parsedQuery) *apiError {
	for i, text := range r.Dimensions {
		d, ok := parseEnum(text, dimensionNames()...)
		if !ok {
			at := fmt.Sprintf("dimension[%d]", i)
			return invalid(at, "Invalid value at '%s'", at)
		}
		if q.groupedBy(dimension(d)) {
			return invalid("dimension", "Duplicate dimensions are not allowed.")
		}
		q.dimensions = append(q.dimensions, dimension(d))
	}
	return nil
}

func (r *queryRequest) parseEnums(q *parsedQuery) *apiError {
	searchType := r.Type
	if searchType == nil {
		searchType = r.SearchType
	}
	var state, aggregated, web int
	for _, f := range []struct {
		text           *string
		into           *int
		name, typeName string
		values         []string
	}{
		{searchType, &web, "type", "SearchType", []string{"web WEB"}},
		{r.DataState, &state, "data_state", "DataState", []string{"final FINAL", "all ALL", "hourly_all HOURLY_ALL"}},
		{r.AggregationType, &aggregated, "aggregation_type", "AggregationType",
			[]string{"auto AUTO", "byProperty BY_PROPERTY", "byPage BY_PAGE", "byNewsShowcasePanel BY_NEWS_SHOWCASE_PANEL"}},
	} {
		if f.text == nil {
			continue
		}
		v, ok := parseEnum(*f.text, f.values...)
		if !ok {
			return invalidEnum(f.name, "google.searchconsole.v1.searchanalytics."+f.typeName, *f.text)
		}
		*f.into = v
	}
	q.state, q.aggregation = dataState(state), aggregation(aggregated)
	return nil
}

func (r *queryRequest) parseRows(q *parsedQuery) *apiError {
	if r.RowLimit != nil {
		if *r.RowLimit < 1 || *r.RowLimit > 25000 {
			return invalid("row_limit", "Invalid value '%d'. Values must be within the range: [1, 25000]", *r.RowLimit)
		}
		q.limit = int(*r.RowLimit)
	}
	if r.StartRow != nil {
		if *r.StartRow < 0 || *r.StartRow > 1<<31-1 {
			return invalid("start_row", "Invalid value '%d'. Values must be within the range: [0, 2147483647]", *r.StartRow)
		}
		q.start = int(*r.StartRow)
	}
	return nil
}

// checkGrouping rejects the combinations of dimensions that the service does not support.
func (r *queryRequest) checkGrouping(q *parsedQuery) *apiError {
	hour := q.groupedBy(byHour)
	switch {
	case q.groupedBy(byAppearance) && len(q.dimensions) > 1:
		return invalid("dimension", "Cannot group by search appearance dimension together with another dimension.")
	case hour && q.groupedBy(byDate):
		return invalid("dimension", "Request cannot be grouped by both date and hour")
	case hour && q.state != hourlyData:
		return invalid("data_state", "Grouping by HOUR requires setting dataState=HOURLY_ALL")
	case !hour && q.state == hourlyData:
		return invalid("data_state", "Using dataState=HOURLY_ALL is allowed only when grouping by HOUR")
	}
	return nil
}

// resolveAggregation decides how impressions are counted: by page if the request groups or filters by page.
func (r *queryRequest) resolveAggregation(q *parsedQuery) *apiError {
	pages := q.groupedBy(byPage) || q.filtersOn(byPage)
	refuse := func(name string) *apiError {
		return invalid("aggregation_type", "'%s' is not a valid aggregation type in the context of the request.", name)
	}
	switch {
	case q.aggregation == panelAggregation:
		return refuse("BY_NEWS_SHOWCASE_PANEL")
	case q.aggregation == propertyAggregation && pages:
		return refuse("BY_PROPERTY")
	case q.aggregation == autoAggregation && pages:
		q.aggregation = pageAggregation
	case q.aggregation == autoAggregation:
		q.aggregation = propertyAggregation
	}
	return nil
}
