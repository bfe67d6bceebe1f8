package reporting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"sara/cmd/sara/internal/admin"
)

// list returns the properties of the key, and those that are archived.
func (r *run) list(ctx context.Context) (present, archived []Property, err error) {
	query := url.Values{"limit": {strconv.Itoa(propertiesPerRequest)}, "include_archived": {"true"}}
	for {
		query.Set("offset", strconv.Itoa(len(present)+len(archived)))
		body, err := r.Client.get(ctx, "/v1/properties", query)
		if err != nil {
			return nil, nil, err
		}
		rows := gjson.GetBytes(body, "data.rows").Array()
		for _, row := range rows {
			p := Property{row.Get("id").String(), row.Get("slug").String(), row.Get("display_name").String(), row.Get("gsc_property").String()}
			if row.Get("archived").Bool() {
				archived = append(archived, p)
			} else {
				present = append(present, p)
			}
		}
		if len(rows) < propertiesPerRequest {
			return present, archived, nil
		}
	}
}

// A choiceError is that of a report on nothing, or on properties that were not named clearly.
type choiceError struct{ text string }

func (e *choiceError) Error() string { return e.text }

// choose returns the properties that names or patterns mean, each once, in the order of the lists. As in the API, archived ones count
// only where no other matches.
func choose(present, archived []Property, references []string) (chosen []Property, err error) {
	taken := make(map[string]bool)
	for _, reference := range references {
		matching := matches(present, reference)
		if len(matching) == 0 {
			matching = matches(archived, reference)
		}
		switch n := len(matching); {
		case n == 0:
			return nil, &choiceError{fmt.Sprintf("the key reaches no property %q: --all reports those that it reaches", reference)}
		case n > 1 && !admin.IsPattern(reference):
			return nil, &choiceError{fmt.Sprintf("%q means %d properties: name one by its id or slug, or all with a star", reference, n)}
		}
		for _, p := range matching {
			taken[p.ID] = true
		}
	}
	for _, p := range slices.Concat(present, archived) {
		if taken[p.ID] {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// matches returns the properties of a list that a name or pattern means.
func matches(list []Property, reference string) (matching []Property) {
	for _, p := range list {
		if strings.EqualFold(p.ID, reference) || admin.Matches(reference, p.Site, host(p.Site), p.Slug) {
			matching = append(matching, p)
		}
	}
	return matching
}

// host returns the host of a Search Console property.
func host(site string) string {
	if domain, ok := strings.CutPrefix(site, "sc-domain:"); ok {
		return domain
	}
	if u, err := url.Parse(site); err == nil {
		return u.Host
	}
	return ""
}

// summaries makes a portfolio of the properties' summaries, a few at a time. When a limit ends the run, the other properties have that
// error.
func (r *run) summaries(ctx context.Context, properties []Property) (*portfolio, error) {
	query := r.comparing()
	rows := make([]row, len(properties))
	next := make(chan int)
	var working sync.WaitGroup
	for range min(workers, len(properties)) {
		working.Go(func() {
			for i := range next {
				body, err := r.Client.get(ctx, "/v1/properties/"+url.PathEscape(properties[i].ID)+"/summary", query)
				rows[i] = newRow(properties[i], body, err)
			}
		})
	}
	for i := range properties {
		next <- i
	}
	close(next)
	working.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return joined(rows)
}

// A row is that of the portfolio, with the figures as the server wrote them.
type row struct {
	dates
	ID          string          `json:"property_id"`
	Name        string          `json:"name"`
	Site        string          `json:"gsc_property"`
	Slug        string          `json:"slug"`
	Totals      json.RawMessage `json:"totals"`
	Previous    json.RawMessage `json:"previous"`
	ClicksDelta *int64          `json:"clicks_delta"`
	Source      *string         `json:"source"`
	StaleReason *string         `json:"stale_reason"`
	Notes       []string        `json:"notes"`
	Error       *rowError       `json:"error"`

	err error
}

type rowError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// newRow makes a row of the answer to /summary.
func newRow(p Property, body []byte, err error) row {
	null := json.RawMessage("null")
	made := row{ID: p.ID, Name: p.Name, Site: p.Site, Slug: p.Slug, Totals: null, Previous: null, Notes: []string{}}
	var answer struct {
		Data struct{ Totals, Previous json.RawMessage }
		Meta struct {
			meta
			Range dates `json:"date_range"`
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		made.err, made.Error = err, &rowError{"UNAVAILABLE", err.Error()}
		if refusal, ok := errors.AsType[*APIError](err); ok {
			made.Error = &rowError{refusal.Code, refusal.Message}
		}
		return made
	}
	m := answer.Meta
	made.dates, made.Source, made.StaleReason, made.Notes = m.Range, m.Source, m.StaleReason, m.Notes
	made.Totals = answer.Data.Totals
	if len(answer.Data.Previous) > 0 {
		made.Previous = answer.Data.Previous
		made.ClicksDelta = new(made.clicks() - gjson.GetBytes(made.Previous, "clicks").Int())
	}
	return made
}

func (r *row) clicks() int64 { return gjson.GetBytes(r.Totals, "clicks").Int() }

// joined makes a portfolio of rows, ordered as the API orders it: by clicks, those without figures last, ties by name and id.
func joined(rows []row) (*portfolio, error) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.failures(), b.failures()), cmp.Compare(b.clicks(), a.clicks()),
			cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ID, b.ID))
	})
	p := &portfolio{meta: meta{Source: rows[0].Source, Notes: []string{}}, dates: rows[0].dates}
	if rows[0].err != nil { // all have one
		return nil, rows[0].err
	}
	for _, r := range rows {
		if r.err != nil {
			r.dates = p.dates
			p.failures = append(p.failures, rowFailure{Property{r.ID, r.Slug, r.Name, r.Site}, r.err})
		} else if r.Source != nil && p.Source != nil && *r.Source != *p.Source {
			p.Source = new("hybrid")
		}
		p.rows = append(p.rows, object(r))
	}
	return p, nil
}

// failures returns 1 for a row without figures, else 0.
func (r *row) failures() int {
	if r.Error != nil {
		return 1
	}
	return 0
}
