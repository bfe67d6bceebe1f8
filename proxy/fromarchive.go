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

// An archivePart is the archive's part of an answer.
type archivePart struct {
	rows    []*translate.Rows // one for each fetch; nil: it reads nothing from the archive
	missing []translate.Date
	last    *translate.Date // the last day that came from the archive; nil for none
	derived int             // days whose totals are added up from another dimension
	origin  translate.Origin
}

// none reports whether no fetch reads from the archive.
func (p *archivePart) none() bool { return p.origin.Source == translate.SourceLive }

func (p *archivePart) note(text string) { p.origin.Notes = append(p.origin.Notes, text) }

// readHistory reads the archive's part of one fetch.
func (s *Server) readHistory(ctx context.Context, propertyID string, fetch *translate.Fetch) (archive.Result, error) {
	end, err := s.largeWork.beginArchive(ctx, fetch.By, fetch.Archive.Days())
	if err != nil {
		return archive.Result{}, err
	}
	defer end()
	return s.config.History.Read(ctx, propertyID, fetch.By, *fetch.Archive)
}

// readArchive reads the archive's part of the fetches.
func (s *Server) readArchive(ctx context.Context, c *call, fetches []translate.Fetch) (*archivePart, error) {
	part := &archivePart{rows: make([]*translate.Rows, len(fetches)), origin: translate.Origin{PropertyID: c.property.ID, Source: translate.SourceLive}}
	live := false
	for i, fetch := range fetches {
		live = live || fetch.Upstream != nil
		if fetch.Archive == nil {
			continue
		}
		part.origin.Source = translate.SourceArchive
		if err := c.checkArchivable(s.config.History); err != nil {
			return nil, err
		}
		reading, span := c.step(ctx, "read archive")
		span.Set("sara.dimension", fetch.By.String())
		span.SetInt("sara.days", fetch.Archive.Days())
		result, err := s.readHistory(reading, c.property.ID, &fetch)
		span.End()
		if err != nil {
			return nil, storeError{err}
		}
		part.add(i, result)
	}
	if part.none() {
		return part, nil
	}
	if live {
		part.origin.Source = translate.SourceHybrid
	}
	slices.Sort(part.missing)
	if err := s.checkMissing(ctx, c, fetches[0].By, part.missing); err != nil {
		return nil, err
	}
	part.addNotes(fetches[0].By)
	return part, nil
}

// checkArchivable refuses a request that no archive could answer, whatever its contents.
func (c *call) checkArchivable(history History) error {
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

// add records the result of fetch i.
func (p *archivePart) add(i int, result archive.Result) {
	p.rows[i] = result.Rows
	p.missing = append(p.missing, result.Missing...)
	if p.last == nil || result.Last != nil && *result.Last > *p.last {
		p.last = result.Last
	}
	p.derived += result.Derived
	p.origin.Truncated = p.origin.Truncated || result.Truncated
}

// checkMissing refuses an answer if all days of the period, or of the one that it is compared with, are missing: zeros would
// read as days without traffic. The missing days are in order.
func (s *Server) checkMissing(ctx context.Context, c *call, by translate.Dimension, missing []translate.Date) error {
	sides := []translate.DateRange{c.params.Period.DateRange}
	if c.params.Compare {
		sides = append(sides, c.params.Period.Previous())
	}
	for _, side := range sides {
		first, ok := slices.BinarySearch(missing, side.Start)
		last := first + side.Days() - 1
		if ok && last < len(missing) && missing[last] == side.End {
			return s.nothingArchived(ctx, c, by, side)
		}
	}
	return nil
}

// nothingArchived returns the error for a range without any archived day: the client's if the range ends before the archive
// begins, else a gap in the archive.
func (s *Server) nothingArchived(ctx context.Context, c *call, by translate.Dimension, r translate.DateRange) error {
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

// addNotes adds the notes on the source of the rows and their gaps.
func (p *archivePart) addNotes(by translate.Dimension) {
	if p.last != nil {
		p.noteCoverage(by, "The days up to "+p.last.String()+" come from the archive")
	}
	if p.derived > 0 {
		p.note(countOf(p.derived, "day was", "days were") + " archived without totals, which are added up from the rows.")
	}
	if n := len(p.missing); n > 0 {
		p.note(fmt.Sprintf("%s not archived and not counted: %s.", countOf(n, "day is", "days are"), joinRanges(p.missing)))
	}
}

func (p *archivePart) noteCoverage(by translate.Dimension, from string) {
	const tail = "%s, which keeps the %d %s with the most clicks of each day: clicks are close to reality, impressions under-report the long tail."
	switch {
	case by == translate.ByQuery:
		p.note(fmt.Sprintf(tail, from, archive.TopRows, "queries"))
	case by == translate.ByPage:
		p.note(fmt.Sprintf(tail, from, archive.TopRows, "pages"))
	case by == translate.ByDate && p.derived == 0:
		p.note(from + ", with the totals of each day.")
	default:
		p.note(from + ".")
	}
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// joinRanges lists sorted days as ranges, at most ten of them.
func joinRanges(days []translate.Date) string {
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
