package reporting

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/dustin/go-humanize/english"
	"github.com/tidwall/gjson"
)

// rowsPerRequest is the most rows that the API returns at once.
const rowsPerRequest = 1000

// timeseries is the table of days, of which one answer has all.
const timeseries = "timeseries"

// meta is what an answer says about its figures.
type meta struct {
	Source      *string  `json:"source"`
	StaleReason *string  `json:"stale_reason"`
	TruncatedBy *string  `json:"truncated_by"`
	HasMore     *bool    `json:"has_more"` // rows beyond the last one of the file
	Notes       []string `json:"notes"`
}

// and returns what two answers about one file say together: figures that are not all live are not live. What the later one says about rows
// beyond its own is about those of the file.
func (m meta) and(later meta) meta {
	if m.Source != nil && later.Source != nil && *m.Source != *later.Source {
		later.Source = new("hybrid")
	}
	later.Source = cmp.Or(later.Source, m.Source)
	later.StaleReason = cmp.Or(m.StaleReason, later.StaleReason)
	later.Notes = union(m.Notes, later.Notes)
	return later
}

// dates is the range that an answer is about.
type dates struct {
	Start string `json:"start_date"`
	End   string `json:"end_date"`
}

// A table is the content of one file.
type table struct {
	meta
	columns []string
	rows    [][]byte
}

// query returns the parameters of the question.
func (q Question) query() url.Values {
	if q.Preset != "" {
		return url.Values{"date_range": {q.Preset}}
	}
	return url.Values{"start_date": {q.From}, "end_date": {q.To}}
}

func (q Question) compares() bool { return q.Compare != "" && q.Compare != "none" }

// comparing returns the parameters of the question, and what to compare with.
func (q Question) comparing() url.Values {
	query := q.query()
	if q.compares() {
		query.Set("compare", q.Compare)
	}
	return query
}

// table reads a table, page by page if it has more rows than one answer.
func (r *run) table(ctx context.Context, p Property, name string) (*table, error) {
	path := "/v1/properties/" + url.PathEscape(p.ID) + "/" + name
	t := &table{columns: tableColumns(name)}
	keys := make(map[string]bool)
	for again := true; again; {
		query, most := r.query(), min(rowsPerRequest, r.Limit-len(t.rows))
		if name != timeseries {
			query.Set("limit", strconv.Itoa(most))
			if len(t.rows) > 0 {
				query.Set("offset", strconv.Itoa(len(t.rows)))
			}
		}
		body, err := r.Client.get(ctx, path, query)
		if err != nil {
			return nil, err
		}
		n, err := t.add(body, r.leading(p, name), keys)
		if err != nil {
			return nil, err
		}
		again = name != timeseries && n == most && len(t.rows) < r.Limit && t.HasMore != nil && *t.HasMore
	}
	if repeated := len(t.rows) - len(keys); repeated > 0 {
		t.Notes = append(t.Notes, english.Plural(repeated, "row appears", "rows appear")+" twice: the figures changed while the table was read.")
	}
	return t, nil
}

// add adds the rows of an answer, and returns how many it has.
func (t *table) add(body []byte, leading []byte, keys map[string]bool) (n int, err error) {
	var page meta
	if err := json.Unmarshal([]byte(gjson.GetBytes(body, "meta").Raw), &page); err != nil {
		return 0, fmt.Errorf("an answer has an odd meta: %w", err)
	}
	t.meta = t.and(page)
	for _, row := range gjson.GetBytes(body, "data.rows").Array() {
		t.rows = append(t.rows, prefixed(leading, row.Raw))
		keys[row.Get("key").String()+row.Get("date").String()] = true
		n++
	}
	return n, nil
}

func union(a, b []string) []string {
	seen := make(map[string]bool)
	all := []string{}
	for _, text := range append(a, b...) {
		if !seen[text] {
			all, seen[text] = append(all, text), true
		}
	}
	return all
}

// tableColumns returns the columns of a table: first the property and the dates, so that the files of a folder are one table.
func tableColumns(name string) []string {
	if name == timeseries {
		return []string{"property_id", "property", "date", "clicks", "impressions", "ctr", "position"}
	}
	return []string{"start_date", "end_date", "property_id", "property", "key", "clicks", "impressions", "ctr", "position"}
}

// leading returns the object whose members precede those of each row of a table.
func (r *run) leading(p Property, table string) []byte {
	if table == timeseries {
		return object(struct {
			ID   string `json:"property_id"`
			Slug string `json:"property"`
		}{p.ID, p.Slug})
	}
	return object(struct {
		dates
		ID   string `json:"property_id"`
		Slug string `json:"property"`
	}{r.record.Range, p.ID, p.Slug})
}

// object returns v, a struct, as JSON.
func object(v any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return bytes.TrimSpace(text.Bytes())
}

// prefixed returns the members of an object and then those of another one, neither of which is empty.
func prefixed(leading []byte, row string) []byte {
	joined := append(leading[:len(leading)-1:len(leading)-1], ',')
	return append(joined, row[1:]...)
}
