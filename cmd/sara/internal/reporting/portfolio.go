package reporting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// propertiesPerRequest is the most properties that the API returns at once.
const propertiesPerRequest = 200

// A portfolio is the figures of properties, one row each.
type portfolio struct {
	meta
	dates    dates
	rows     [][]byte
	failures []rowFailure
	ended    map[string]bool // the ids of archived properties that have no figures of the range, and never will
}

// A rowFailure is why a property has no figures.
type rowFailure struct {
	property Property
	err      error
}

// properties returns the properties of the rows, but those that have ended.
func (p *portfolio) properties() []Property {
	properties := make([]Property, 0, len(p.rows))
	for _, row := range p.rows {
		found := gjson.GetManyBytes(row, "property_id", "slug", "name", "gsc_property")
		if id := found[0].String(); !p.ended[id] {
			properties = append(properties, Property{id, found[1].String(), found[2].String(), found[3].String()})
		}
	}
	return properties
}

// portfolioColumns returns the columns of the portfolio in CSV.
func (q Question) portfolioColumns() []string {
	columns := []string{"start_date", "end_date", "property_id", "name", "gsc_property", "slug",
		"totals.clicks", "totals.impressions", "totals.ctr", "totals.position"}
	if q.compares() {
		columns = append(columns, "previous.start_date", "previous.end_date", "previous.clicks", "previous.impressions", "previous.ctr",
			"previous.position", "clicks_delta")
	}
	return append(columns, "source", "stale_reason", "notes", "error.code", "error.message")
}

// WritePortfolio writes the portfolio alone. It returns what the server says about it, and an error if a property has no figures.
func WritePortfolio(ctx context.Context, c Config, w io.Writer) (*Result, error) {
	r := &run{Config: c, record: &record{Question: c.Question}}
	p, err := r.portfolio(ctx)
	if err != nil {
		return nil, err
	}
	if err := writeRows(w, c.Format, c.portfolioColumns(), p.rows); err != nil {
		return nil, err
	}
	r.record.Properties, r.record.Range = p.properties(), p.dates
	r.record.wrote(fileRecord{Table: portfolioTable, Rows: len(p.rows), meta: p.meta}, c.Now())
	for _, failure := range p.failures {
		r.record.failed(fileRecord{Table: portfolioTable, PropertyID: failure.property.ID, Property: failure.property.Slug}, failure.err)
	}
	stopped := c.Client.end() // of the properties that have no figures
	r.record.stopped(stopped, c.Now())
	return r.record.result(), r.record.err(stopped)
}

// portfolio reads the figures of the chosen properties: all in one request for 200 of them, single ones by their summaries, since the
// portfolio would spend a live call on each of the others.
func (r *run) portfolio(ctx context.Context) (*portfolio, error) {
	if len(r.Select) == 0 {
		return r.whole(ctx)
	}
	present, archived, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(present, archived, r.Select)
	if err != nil {
		return nil, err
	}
	return r.summaries(ctx, chosen)
}

// whole reads the figures of all properties of the key, page by page. A property whose figures come meanwhile may move to a page that was
// read before: then the pages are read again, as long as that finds more.
func (r *run) whole(ctx context.Context) (*portfolio, error) {
	p := &portfolio{}
	seen := make(map[string]bool)
	query := r.comparing()
	for before, total := -1, int64(1); int64(len(seen)) < total; {
		if before == len(seen) {
			return nil, fmt.Errorf("the portfolio changed while it was read: %d of %d properties were found", before, total)
		}
		before = len(seen)
		var err error
		if total, err = r.pages(ctx, query, p, seen); err != nil {
			return nil, err
		}
	}
	if len(p.rows) == 0 {
		return nil, errNoProperty
	}
	r.findEnded(ctx, p)
	return p, nil
}

// pages adds all pages of the portfolio, and returns how many properties it has.
func (r *run) pages(ctx context.Context, query url.Values, p *portfolio, seen map[string]bool) (total int64, err error) {
	query.Set("limit", strconv.Itoa(propertiesPerRequest))
	for offset := 0; ; offset += propertiesPerRequest {
		query.Set("offset", strconv.Itoa(offset))
		body, err := r.page(ctx, query)
		if err != nil {
			return 0, err
		}
		if err := p.add(body, seen); err != nil {
			return 0, err
		}
		if total = gjson.GetBytes(body, "meta.total").Int(); int64(offset+propertiesPerRequest) >= total {
			return total, nil
		}
	}
}

// findEnded finds the properties that have ended, unless no other is left: a report that lacks only those is complete. It finds none if the
// key lacks the scope to list properties, or a limit is reached.
func (r *run) findEnded(ctx context.Context, p *portfolio) {
	ended := p.withoutFigures()
	if len(ended) == 0 {
		return
	}
	me, err := r.Client.get(ctx, "/v1/me", nil)
	if err != nil || !strings.Contains(gjson.GetBytes(me, "data.key.scopes").Raw, `"properties:read"`) {
		return
	}
	present, _, err := r.list(ctx)
	if err != nil {
		return
	}
	for _, property := range present {
		delete(ended, property.ID)
	}
	if r.compares() && len(ended) > 0 {
		// A property may have figures of the range, and none to compare them with.
		alone := &portfolio{}
		if _, err := r.pages(ctx, r.query(), alone, make(map[string]bool)); err != nil {
			return
		}
		without := alone.withoutFigures()
		maps.DeleteFunc(ended, func(id string, _ bool) bool { return !without[id] })
	}
	if len(ended) < len(p.rows) {
		p.ended = ended
		p.failures = slices.DeleteFunc(p.failures, func(f rowFailure) bool { return ended[f.property.ID] })
	}
}

// withoutFigures returns the ids of the properties that have no figures of the range.
func (p *portfolio) withoutFigures() map[string]bool {
	ids := make(map[string]bool)
	for _, failure := range p.failures {
		if refusal, ok := errors.AsType[*APIError](failure.err); ok && isOfRange(refusal.Code) {
			ids[failure.property.ID] = true
		}
	}
	return ids
}

// isOfRange reports whether an error of a row means that there are no figures of the range.
func isOfRange(code string) bool { return code == "VALIDATION_ERROR" || code == "DATE_RANGE_TOO_OLD" }

// errNoProperty is the error of a key without properties.
var errNoProperty error = &choiceError{"the key reaches no property: connect one, or ask for access to a workspace"}

// page reads a page of the portfolio. Properties that Search Console did not answer for in time have errors there: the page is read again
// as long as they get fewer, since what was answered is in the cache.
func (r *run) page(ctx context.Context, query url.Values) ([]byte, error) {
	for before := -1; ; {
		body, err := r.Client.get(ctx, "/v1/portfolio", query)
		if err != nil {
			return nil, err
		}
		late := 0
		for _, code := range gjson.GetBytes(body, "data.rows.#.error.code").Array() {
			if isTransient(code.String()) {
				late++
			}
		}
		if late == 0 || before >= 0 && late >= before {
			return body, nil
		}
		before = late
	}
}

// isTransient reports whether an error of a row may pass soon.
func isTransient(code string) bool {
	return code == "UPSTREAM_UNAVAILABLE" || code == "SERVICE_UNAVAILABLE"
}

// add adds the rows of a page. A property that moved to a later page while they were read is in it once. The notes of a page are on all
// properties, whatever page they are on: those of the last one that was read hold.
func (p *portfolio) add(body []byte, seen map[string]bool) error {
	var m struct {
		meta
		Range dates `json:"date_range"`
	}
	if err := json.Unmarshal([]byte(gjson.GetBytes(body, "meta").Raw), &m); err != nil {
		return fmt.Errorf("an answer has an odd meta: %w", err)
	}
	p.meta, p.dates = p.and(m.meta), m.Range
	p.Notes = union(nil, m.Notes)
	for _, row := range gjson.GetBytes(body, "data.rows").Array() {
		found := Property{row.Get("property_id").String(), row.Get("slug").String(), row.Get("name").String(), row.Get("gsc_property").String()}
		if seen[found.ID] {
			continue
		}
		seen[found.ID] = true
		p.rows = append(p.rows, prefixed(object(m.Range), row.Raw))
		if failed := row.Get("error"); failed.IsObject() {
			p.failures = append(p.failures, rowFailure{found, &APIError{Code: failed.Get("code").String(), Message: failed.Get("message").String()}})
		}
	}
	return nil
}
