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

// History is what the archive has of every property. archive.History is the one there is.
type History interface {
	// Rows adds up the rows of a range of days by their keys, and tells which of the days are not archived, in order.
	Rows(ctx context.Context, propertyID string, by translate.Dimension, r translate.DateRange) (*translate.Rows, []translate.Date, error)

	// Cut tells whether rows may be missing because only the first of each day are kept.
	Cut(ctx context.Context, propertyID string, by translate.Dimension, r translate.DateRange) (bool, error)

	// Days tells which days of a property are archived.
	Days(ctx context.Context, propertyID string) (archive.Inventory, error)
}

// stored is what the archive has to say to a question.
type stored struct {
	rows    []*translate.Rows // one for each need; nil for one that fetches nothing of it
	addedUp int               // days without totals of their own
	origin  translate.Origin
}

// none reports whether the archive was not needed.
func (s *stored) none() bool { return s.origin.Source == translate.SourceLive }

func (s *stored) note(text string) { s.origin.Notes = append(s.origin.Notes, text) }

// fromArchive reads what the needs have of the archive. The rows of the rest are the upstream's.
func (s *Server) readArchive(ctx context.Context, c *call, fetches []translate.Fetch) (*stored, error) {
	found := &stored{rows: make([]*translate.Rows, len(fetches)), origin: translate.Origin{PropertyID: c.property.ID, Source: translate.SourceLive}}
	var missing []translate.Date
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
		absent, err := found.read(reading, s.config.History, i, fetch)
		span.End()
		if err != nil {
			return nil, storeError{err}
		}
		missing = append(missing, absent...)
	}
	if found.none() {
		return found, nil
	}
	if live {
		found.origin.Source = translate.SourceHybrid
	}
	if err := s.checkStored(ctx, c, fetches[0].By, missing); err != nil {
		return nil, err
	}
	found.tell(fetches, missing)
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

// read reads the stored part of need i, and returns which of its days are not archived.
func (s *stored) read(ctx context.Context, history History, i int, fetch translate.Fetch) (missing []translate.Date, err error) {
	property := s.origin.PropertyID
	if s.rows[i], missing, err = history.Rows(ctx, property, fetch.By, *fetch.Archive); err != nil {
		return nil, err
	}
	if fetch.By == translate.ByDate && len(missing) > 0 {
		return s.addUp(ctx, history, i, missing)
	}
	cut, err := history.Cut(ctx, property, fetch.By, *fetch.Archive)
	s.origin.Truncated = s.origin.Truncated || cut
	return missing, err
}

// addUp makes totals of days that were archived without any, as imported ones may be, from what there is of them: devices
// and countries add up to them, pages and queries come close. It returns the days of which there is nothing.
func (s *stored) addUp(ctx context.Context, history History, i int, days []translate.Date) (missing []translate.Date, err error) {
	inventory, err := history.Days(ctx, s.origin.PropertyID)
	if err != nil {
		return nil, err
	}
	var b translate.RowsBuilder
	for _, day := range days {
		by, there := partsOf(inventory, day)
		if !there {
			missing = append(missing, day)
			continue
		}
		rows, _, err := history.Rows(ctx, s.origin.PropertyID, by, translate.DateRange{Start: day, End: day})
		if err != nil {
			return nil, err
		}
		b.Add(day.Append(nil), rows.Total())
		s.addedUp++
	}
	s.rows[i] = translate.MergeRows(translate.ByDate, s.rows[i], b.Rows())
	return missing, nil
}

// partsOf returns what comes closest to the totals of a day.
func partsOf(inventory archive.Inventory, day translate.Date) (by translate.Dimension, there bool) {
	for _, by := range [...]translate.Dimension{translate.ByDevice, translate.ByCountry, translate.ByPage, translate.ByQuery} {
		if covered, ok := inventory[by]; ok && covered.Has(day) {
			return by, true
		}
	}
	return 0, false
}

// checkStored refuses an answer of which a whole side would be made of days that are not there: it would read as nothing
// having happened.
func (s *Server) checkStored(ctx context.Context, c *call, by translate.Dimension, missing []translate.Date) error {
	sides := []translate.DateRange{c.params.Period.DateRange}
	if c.params.Compare {
		sides = append(sides, c.params.Period.Previous())
	}
	absent := make(map[translate.Date]bool, len(missing))
	for _, day := range missing {
		absent[day] = true
	}
	for _, side := range sides {
		there := false
		for day := side.Start; day <= side.End && !there; day++ {
			there = !absent[day]
		}
		if !there {
			return s.nothingStored(ctx, c, by, side)
		}
	}
	return nil
}

// nothingStored is the failure of a question about days of which none is archived: a request for what the archive does not
// reach back to, or one for what it should have.
func (s *Server) nothingStored(ctx context.Context, c *call, by translate.Dimension, r translate.DateRange) error {
	inventory, err := s.config.History.Days(ctx, c.property.ID)
	if err != nil {
		return storeError{err}
	}
	if first, there := firstStored(inventory, by); there && r.End < first {
		return &translate.InputError{Code: translate.CodeDateRangeTooOld, Message: fmt.Sprintf(
			"the property's history begins on %s; there is nothing from %s to %s", first, r.Start, r.End)}
	}
	return c.unavailable(neverLiveRetry, fmt.Sprintf("nothing is stored of the days from %s to %s", r.Start, r.End), nil)
}

// firstStored returns the first day of which there are rows of a dimension, or for totals any rows.
func firstStored(inventory archive.Inventory, by translate.Dimension) (first translate.Date, there bool) {
	for kept, covered := range inventory {
		if (kept == by || by == translate.ByDate) && (!there || covered.First < first) {
			first, there = covered.First, true
		}
	}
	return first, there
}

// tell says what an archive answer is.
func (s *stored) tell(fetches []translate.Fetch, missing []translate.Date) {
	slices.Sort(missing)
	if last, there := lastStored(fetches, missing); there {
		s.tellWhatIsKept(fetches[0].By, "The days up to "+last.String()+" come from the archive")
	}
	if s.addedUp > 0 {
		s.note(count(s.addedUp, "day was", "days were") + " archived without totals, which are added up from the rows.")
	}
	if len(missing) > 0 {
		s.note(fmt.Sprintf("%s not archived and not counted: %s.", count(len(missing), "day is", "days are"), ranges(missing)))
	}
}

func (s *stored) tellWhatIsKept(by translate.Dimension, from string) {
	const tail = "%s, which keeps the %d %s with the most clicks of each day: clicks are close to reality, impressions under-report the long tail."
	switch {
	case by == translate.ByQuery:
		s.note(fmt.Sprintf(tail, from, archive.TopRows, "queries"))
	case by == translate.ByPage:
		s.note(fmt.Sprintf(tail, from, archive.TopRows, "pages"))
	case by == translate.ByDate && s.addedUp == 0:
		s.note(from + ", with the totals of each day.")
	default:
		s.note(from + ".")
	}
}

// lastStored returns the last day that came from the archive. The missing days are in order.
func lastStored(fetches []translate.Fetch, missing []translate.Date) (last translate.Date, there bool) {
	for _, fetch := range fetches {
		if fetch.Archive == nil {
			continue
		}
		for day := fetch.Archive.End; day >= fetch.Archive.Start && (!there || day > last); day-- {
			if _, absent := slices.BinarySearch(missing, day); !absent {
				last, there = day, true
			}
		}
	}
	return last, there
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
