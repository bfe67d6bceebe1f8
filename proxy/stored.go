package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sara/archive"
	"sara/translate"
)

// History is the archive. Its implementation is archive.History.
type History interface {
	// Read answers a dimension and a range of days.
	Read(ctx context.Context, propertyID string, by translate.Dimension, r translate.DateRange) (archive.Result, error)

	// First returns the first archived day under a dimension, or for ByDate under any.
	First(ctx context.Context, propertyID string, by translate.Dimension) (first translate.Date, ok bool, err error)
}

// stored is what the archive has to say to a question.
type stored struct {
	rows    []*translate.Rows // one for each fetch; nil for one that needs nothing of the archive
	missing []translate.Date
	last    *translate.Date // the last day that came from the archive; nil for none
	derived int             // days whose totals are added up from another dimension
	origin  translate.Origin
}

// none reports whether the archive was not needed.
func (s *stored) none() bool { return s.origin.Source == translate.SourceLive }

func (s *stored) note(text string) { s.origin.Notes = append(s.origin.Notes, text) }

// readArchive reads what the fetches have of the archive.
func (s *Server) readArchive(ctx context.Context, c *call, fetches []translate.Fetch) (*stored, error) {
	found := &stored{rows: make([]*translate.Rows, len(fetches)), origin: translate.Origin{PropertyID: c.property.ID, Source: translate.SourceLive}}
	live := false
	for i, fetch := range fetches {
		live = live || fetch.Upstream != nil
		if fetch.Archive == nil {
			continue
		}
		found.origin.Source = translate.SourceArchive
		if err := c.mayStore(s.config.History); err != nil {
			return nil, err
		}
		reading, span := c.step(ctx, "read archive")
		span.Set("sara.dimension", fetch.By.String())
		span.SetInt("sara.days", fetch.Archive.Days())
		result, err := s.config.History.Read(reading, c.property.ID, fetch.By, *fetch.Archive)
		span.End()
		if err != nil {
			return nil, storeError{err}
		}
		found.add(i, result)
	}
	if found.none() {
		return found, nil
	}
	if live {
		found.origin.Source = translate.SourceHybrid
	}
	slices.Sort(found.missing)
	if err := s.checkStored(ctx, c, fetches[0].By, found.missing); err != nil {
		return nil, err
	}
	found.tell(fetches[0].By)
	return found, nil
}

// mayStore refuses a question that the archive cannot answer, whatever is in it.
func (c *call) mayStore(history History) error {
	switch {
	case len(c.params.Filters) > 0 && c.property.Archived:
		return c.unavailable(neverLiveRetry, "the property is archived: it serves stored history only", nil)
	case len(c.params.Filters) > 0:
		return c.unavailable(neverLiveRetry, fmt.Sprintf("the upstream has no days before %s any more", c.window.UpstreamStart), nil)
	case history == nil:
		return c.unavailable(neverLiveRetry, "it takes stored history, and there is no archive", nil)
	}
	return nil
}

// add takes over the result of fetch i.
func (s *stored) add(i int, result archive.Result) {
	s.rows[i] = result.Rows
	s.missing = append(s.missing, result.Missing...)
	if s.last == nil || result.Last != nil && *result.Last > *s.last {
		s.last = result.Last
	}
	s.derived += result.Derived
	s.origin.Truncated = s.origin.Truncated || result.Truncated
}

// checkStored refuses an answer if all days of the period, or of the one that it is compared with, are missing: zeros would
// read as days without traffic. The missing days are in order.
func (s *Server) checkStored(ctx context.Context, c *call, by translate.Dimension, missing []translate.Date) error {
	sides := []translate.DateRange{c.params.Period.DateRange}
	if c.params.Compare {
		sides = append(sides, c.params.Period.Previous())
	}
	for _, side := range sides {
		first, ok := slices.BinarySearch(missing, side.Start)
		last := first + side.Days() - 1
		if ok && last < len(missing) && missing[last] == side.End {
			return s.nothingStored(ctx, c, by, side)
		}
	}
	return nil
}

// nothingStored is the failure of a question about days of which none is archived: a request for what the archive does not
// reach back to, or one for what it should have.
func (s *Server) nothingStored(ctx context.Context, c *call, by translate.Dimension, r translate.DateRange) error {
	first, ok, err := s.config.History.First(ctx, c.property.ID, by)
	if err != nil {
		return storeError{err}
	}
	if ok && r.End < first {
		return &translate.InputError{Code: translate.CodeDateRangeTooOld, Message: fmt.Sprintf(
			"the property's history begins on %s; there is nothing from %s to %s", first, r.Start, r.End)}
	}
	return c.unavailable(neverLiveRetry, fmt.Sprintf("nothing is stored of the days from %s to %s", r.Start, r.End), nil)
}

// tell says what an archive answer is.
func (s *stored) tell(by translate.Dimension) {
	if s.last != nil {
		s.tellWhatIsKept(by, "The days up to "+s.last.String()+" come from the archive")
	}
	if s.derived > 0 {
		s.note(count(s.derived, "day was", "days were") + " archived without totals, which are added up from the rows.")
	}
	if n := len(s.missing); n > 0 {
		s.note(fmt.Sprintf("%s not archived and not counted: %s.", count(n, "day is", "days are"), ranges(s.missing)))
	}
}

func (s *stored) tellWhatIsKept(by translate.Dimension, from string) {
	const tail = "%s, which keeps the %d %s with the most clicks of each day: clicks are close to reality, impressions under-report the long tail."
	switch {
	case by == translate.ByQuery:
		s.note(fmt.Sprintf(tail, from, archive.TopRows, "queries"))
	case by == translate.ByPage:
		s.note(fmt.Sprintf(tail, from, archive.TopRows, "pages"))
	case by == translate.ByDate && s.derived == 0:
		s.note(from + ", with the totals of each day.")
	default:
		s.note(from + ".")
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// ranges names days in order as ranges; of very many, the first.
func ranges(days []translate.Date) string {
	const most = 10
	var names []string
	for i := 0; i < len(days); {
		end := i + 1
		for end < len(days) && days[end] == days[end-1]+1 {
			end++
		}
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d more", len(days)-i))
			break
		}
		name := days[i].String()
		if end > i+1 {
			name += " to " + days[end-1].String()
		}
		names = append(names, name)
		i = end
	}
	return strings.Join(names, ", ")
}
