package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sara/archive"
	"sara/proxy/openapi"
	"sara/translate"
)

// An archivePart is the archive's part of an answer.
type archivePart struct {
	parts     []translate.Part       // one for each fetch; nil: it reads nothing from the archive
	memory    [2]translate.Part      // for parts: a report has at most two fetches
	sums      []archive.Result       // whose memory the parts may share, until release
	damage    []*archive.DamageError // what could not be read
	last      *translate.Date        // the last day that came from the archive; nil for none
	derived   int                    // days whose totals are added up from another dimension
	missing   []translate.Date       // days that are not archived
	truncated bool                   // rows are missing because of the ranking by clicks
}

// none reports whether no fetch reads from the archive.
func (p *archivePart) none() bool {
	return !slices.ContainsFunc(p.parts, func(read translate.Part) bool { return read != nil })
}

// release gives up the memory of what was read. The answer does not share it. It may be called again.
func (p *archivePart) release() {
	for i := range p.sums {
		p.sums[i].Release()
	}
	p.parts, p.sums = nil, nil
}

// readArchive reads the archive's part of the fetches, which the caller releases. damage is what is known about it before; nil for none.
func (s *reportServer) readArchive(ctx context.Context, q *reportRequest, fetches []translate.Fetch, damage *archive.DamageError) (
	_ *archivePart, err error) {
	part := new(archivePart)
	defer func() {
		if err != nil {
			part.release()
		}
	}()
	part.parts = part.memory[:len(fetches)]
	part.add(archive.Result{Damage: damage})
	for i := range fetches {
		switch {
		case translate.MatchNothing(q.conditions):
			part.parts[i] = new(translate.Rows)
		case len(fetches[i].Archive) > 0:
			if part.parts[i], err = s.readDays(ctx, q, part, &fetches[i]); err != nil {
				return nil, err
			}
		}
	}
	return part, nil
}

// readDays reads the archive's part of a fetch, and records in part what was read besides rows.
func (s *reportServer) readDays(ctx context.Context, q *reportRequest, part *archivePart, fetch *translate.Fetch) (translate.Part, error) {
	ctx, span := q.call.step(ctx, "read archive")
	defer span.End()
	days := 0
	for _, r := range fetch.Archive {
		days += r.Days()
	}
	span.Set("sara.dimension", fetch.By.String())
	span.SetInt("sara.days", days)
	end, err := s.largeWork.beginArchive(ctx, fetch.By, days)
	if err != nil {
		return nil, storeError{err}
	}
	defer end()
	pieces := make([]translate.Part, len(fetch.Archive))
	for n, r := range fetch.Archive {
		if pieces[n], err = s.readRange(ctx, q, part, fetch, r); err != nil {
			return nil, storeError{err}
		}
	}
	if len(pieces) == 1 {
		return pieces[0], nil
	}
	return s.merge(fetch.By, 0, pieces...), nil
}

// readRange reads one range of days: its first rows if these are enough, else the sums of all.
func (s *reportServer) readRange(ctx context.Context, q *reportRequest, part *archivePart, fetch *translate.Fetch, r translate.DateRange) (
	translate.Part, error) {
	propertyID, by := q.call.property.ID, fetch.By
	if first := q.report.FirstOfPart(q.call.params, *fetch); by == translate.ByDate || first > 0 {
		result, err := s.config.History.Read(ctx, propertyID, by, r, first)
		if err != nil {
			return nil, err
		}
		part.add(result)
		return result.Rows, nil
	}
	result, err := s.config.History.Sum(ctx, propertyID, by, r)
	if err != nil {
		return nil, err
	}
	part.add(result)
	part.sums = append(part.sums, result)
	return result.Sums, nil
}

// add records what was read besides rows.
func (p *archivePart) add(result archive.Result) {
	p.missing = append(p.missing, result.Missing...)
	if result.Damage != nil {
		p.damage = append(p.damage, result.Damage)
	}
	if p.last == nil || result.Last != nil && *result.Last > *p.last {
		p.last = result.Last
	}
	p.derived += result.Derived
	p.truncated = p.truncated || result.Truncated
}

// completed returns the gaps of a plan with those of the archive.
func (p *archivePart) completed(gaps translate.Gaps) translate.Gaps {
	gaps.Missing = append(gaps.Missing, p.missing...)
	slices.Sort(gaps.Missing)
	for _, day := range gaps.Missing {
		if slices.ContainsFunc(p.damage, func(d *archive.DamageError) bool { return d.Has(day) }) {
			gaps.Damaged = append(gaps.Damaged, day)
		}
	}
	return gaps
}

// damageRetry is the Retry-After of a damaged archive, which an operator has to restore.
const damageRetry = 24 * time.Hour

// checkGaps refuses an answer if no day of its period, or of the period that it is compared with, is stored, or if the two have no known day
// in common: zeros would read as days without traffic.
func (s *reportServer) checkGaps(ctx context.Context, p *plan) error {
	switch side, damaged, isMissing := p.call.params.MissingPeriod(p.gaps); {
	case !isMissing:
		return p.call.params.CheckComparable(p.gaps)
	case damaged:
		return &apiError{code: openapi.CodeServiceUnavailable, retryAfter: damageRetry, cause: p.archive.damage[0],
			message: fmt.Sprintf("the archive of the days from %s to %s is damaged", side.Start, side.End)}
	default:
		return s.nothingStored(ctx, p, side)
	}
}

// nothingStored returns the error for a range that needs the archive when the archive has none of its days. Waiting does not help, so it is
// the client's error: it names the available days, which the plan keeps, and why days that the upstream has do not count.
func (s *reportServer) nothingStored(ctx context.Context, p *plan, r translate.DateRange) error {
	c, by := p.call, p.report.By()
	stored, ok, err := s.config.History.Bounds(ctx, c.property.ID, by, c.window.Earliest)
	if err != nil {
		return storeError{err}
	}
	first := c.window.UpstreamStart
	if ok && (c.property.Archived || stored.Start < first) {
		first = stored.Start
	}
	code, reason, figures := translate.CodeValidation, "", "figures"
	if p.gaps.Archived {
		figures = "archived figures"
	}
	switch {
	case c.property.Archived && !ok:
		reason = "the property is archived, and no day that the plan keeps is stored"
	case c.property.Archived && r.Start > stored.End:
		reason = fmt.Sprintf("the property is archived, and its last stored day is %s", stored.End)
	case r.End < first:
		code, reason = translate.CodeDateRangeTooOld, fmt.Sprintf("the first available day is %s", first)
		if r == c.params.Previous() {
			reason += fmt.Sprintf(", so that periods of as many days can be compared from %s on", c.params.ComparableFrom(first))
		}
	case !ok: // of days that Search Console has dropped early, other figures are archived
		reason = fmt.Sprintf("no day that the plan keeps is archived by %s", by)
	default:
		reason = fmt.Sprintf("the archive has days from %s to %s", stored.Start, stored.End)
		if r.Start <= stored.End && r.End >= stored.Start {
			reason += ", with gaps"
		}
	}
	return &translate.InputError{Code: code,
		Message: fmt.Sprintf("there are no %s %s: %s%s", figures, r.Phrase(), reason, p.gaps.Reason())}
}

// neverFiltered is the error of a filtered request for days before the first live one.
func (c *call) neverFiltered(live translate.Date) error {
	if c.property.Archived {
		return c.unavailable(0, "the property is archived: it serves stored history only", nil)
	}
	return c.unavailable(0, fmt.Sprintf("Search Console no longer has days before %s", live), nil)
}

// notes returns the notes on the source of the rows.
func (p *archivePart) notes(by translate.Dimension) (notes []string) {
	if p.last != nil {
		notes = append(notes, "The days up to "+p.last.String()+" come from the archive"+p.coverage(by)+".")
	}
	if p.derived > 0 {
		notes = append(notes, countOf(p.derived, "day was", "days were")+" archived without totals, which were added up from the rows.")
	}
	return notes
}

// coverage returns the end of a sentence that says what the archive keeps of a day.
func (p *archivePart) coverage(by translate.Dimension) string {
	switch {
	case by == translate.ByQuery, by == translate.ByPage:
		keys := "queries"
		if by == translate.ByPage {
			keys = "pages"
		}
		return ", which keeps the " + strconv.Itoa(archive.TopRows) + " " + keys +
			" with the most clicks of each day: clicks are close to reality, impressions under-report the long tail"
	case by == translate.ByDate && p.derived == 0:
		return ", with the totals of each day"
	}
	return ""
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
