package collector

import (
	"context"
	"fmt"
	"time"

	"sara/archive"
	"sara/proxy/jobs/schedule"
	"sara/translate"
)

// gap is what is missing of a day, or not final.
type gap struct {
	day translate.Date
	by  []translate.Dimension
}

// gaps returns what there is to collect of a property, the oldest day first.
func (r *run) gaps(inventory archive.Inventory, retentionMonths int) []gap {
	window := translate.NewWindow(r.anchor, retentionMonths)
	first, last := max(window.UpstreamStart, window.Earliest), window.Anchor
	if r.span.Since != nil {
		first = max(first, *r.span.Since)
	}
	if r.span.Until != nil {
		last = min(last, *r.span.Until)
	}
	var gaps []gap
	for day := first; day <= last; day++ {
		g := gap{day: day}
		for _, by := range archive.Dimensions() {
			if !inventory[by].HasFinal(day) {
				g.by = append(g.by, by)
			}
		}
		if len(g.by) > 0 {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// collect archives what is missing of a property. After an error, the days before it are archived.
func (r *run) collect(ctx context.Context, t *task) error {
	p := t.Property
	inventory, err := r.config.History.Days(ctx, p.ID)
	if err != nil {
		return err
	}
	gaps := r.gaps(inventory, p.RetentionMonths)
	if len(gaps) == 0 {
		return nil
	}
	r.config.Progress.Started(p, len(gaps))
	totals, err := r.totals(ctx, p, translate.DateRange{Start: gaps[0].day, End: gaps[len(gaps)-1].day})
	if err != nil {
		return err
	}
	var b batch
	contradiction := &ContradictionError{}
	for _, g := range gaps {
		days, clear, askErr := r.day(ctx, p, g, totals)
		if askErr != nil {
			err = askErr
			break
		}
		if !clear {
			contradiction.Days = append(contradiction.Days, g.day)
		}
		b.add(g.day, days)
		if b.count >= r.config.FlushDays || b.endsMonth() {
			if err := r.flush(ctx, t, &b); err != nil {
				return err
			}
		}
		r.config.Progress.Collected(p, g.day)
	}
	if flushErr := r.flush(ctx, t, &b); err == nil {
		err = flushErr
	}
	if err == nil && len(contradiction.Days) > 0 {
		err = contradiction
	}
	return err
}

// batch is the days that are held and not written yet.
type batch struct {
	days  []archive.Day
	last  translate.Date
	count int
}

func (b *batch) add(day translate.Date, days []archive.Day) {
	b.last = day
	if len(days) > 0 {
		b.days, b.count = append(b.days, days...), b.count+1
	}
}

// endsMonth reports whether the last day is the last of its month.
func (b *batch) endsMonth() bool { return (b.last + 1).Time().Day() == 1 }

// flush writes what is held. Once ctx has ended nothing is written.
func (r *run) flush(ctx context.Context, t *task, b *batch) error {
	if len(b.days) == 0 {
		return nil
	}
	if err := r.config.History.Merge(ctx, t.Property.ID, b.days); err != nil {
		return err
	}
	t.Days += b.count
	*b = batch{}
	return nil
}

// totals are the figures of whole days, as far as the upstream tells them.
type totals map[translate.Date]translate.Metrics

// totals asks for the days of a stretch with one question.
func (r *run) totals(ctx context.Context, p Property, stretch translate.DateRange) (totals, error) {
	rows, err := r.ask(ctx, p, translate.SeriesQuery(p.Site, stretch, nil))
	if err != nil {
		return nil, err
	}
	found := make(totals, rows.Len())
	for i := range rows.Len() {
		day, err := translate.ParseDate(string(rows.Key(i)))
		if err != nil || day < stretch.Start || day > stretch.End {
			return nil, fmt.Errorf("the upstream answers about the day %.20q, and was asked about %s to %s",
				rows.Key(i), stretch.Start, stretch.End)
		}
		found[day] = rows.Metrics(i)
	}
	return found, nil
}

// day asks for what is missing of a day. clear is false when the answers contradict each other; then there are no days. There
// are none either of a day that the upstream does not show yet.
func (r *run) day(ctx context.Context, p Property, g gap, of totals) (days []archive.Day, clear bool, err error) {
	final := g.day <= r.anchor-provisionalDays
	total, shown := of[g.day]
	switch {
	case !shown && !final:
		return nil, true, nil
	case total.Impressions == 0:
		// One more question makes sure that the day is not just missing in the series.
		rows, err := r.ask(ctx, p, translate.DayQuery(p.Site, translate.ByDevice, g.day, archive.TopRows))
		if err != nil || hasTraffic(rows) {
			return nil, false, err
		}
		for _, by := range g.by {
			days = append(days, archive.Day{Date: g.day, Dimension: by, Final: final})
		}
		return days, true, nil
	}
	for _, by := range g.by {
		rows, err := r.rows(ctx, p, by, g.day, total)
		if err != nil {
			return nil, false, err
		}
		// Queries that few people made are withheld, maybe all of a day; nothing else is.
		if by != translate.ByQuery && !hasTraffic(rows) {
			return nil, false, nil
		}
		days = append(days, archive.Day{Date: g.day, Dimension: by, Rows: rows, Final: final})
	}
	return days, true, nil
}

// rows returns the rows of a day: its total, which is known, or those of a dimension, for which it asks.
func (r *run) rows(ctx context.Context, p Property, by translate.Dimension, day translate.Date, total translate.Metrics) (
	*translate.Rows, error) {
	if by != translate.ByDate {
		return r.ask(ctx, p, translate.DayQuery(p.Site, by, day, archive.TopRows))
	}
	var b translate.RowsBuilder
	b.Add(nil, total)
	return b.Rows(), nil
}

func hasTraffic(rows *translate.Rows) bool {
	for i := range rows.Len() {
		if rows.Metrics(i).Impressions > 0 {
			return true
		}
	}
	return false
}

// ask asks the upstream when it may be asked, and remembers what a refusal says of other questions.
func (r *run) ask(ctx context.Context, p Property, q translate.Query) (*translate.Rows, error) {
	if err := r.turn(ctx, p); err != nil {
		return nil, err
	}
	if err := r.mayAsk(ctx, p); err != nil {
		return nil, err
	}
	rows, err := r.config.Source.Ask(ctx, p, q)
	if err != nil && context.Cause(ctx) == nil {
		r.note(ctx, p, err)
	}
	return rows, err
}

// mayAsk is the refusal that the question would meet, as far as it is known.
func (r *run) mayAsk(ctx context.Context, p Property) error {
	r.mu.Lock()
	lost := r.lost[p.Connection]
	r.mu.Unlock()
	if lost != nil {
		return lost
	}
	if until, rests := r.rests(p.Site); rests {
		return &schedule.Refusal{Class: schedule.Quota, Rest: until.Sub(r.config.Now()),
			Err: fmt.Errorf("the upstream's quota for the site is used up until %s", until.UTC().Format(time.RFC3339))}
	}
	if r.config.Rests == nil {
		return nil
	}
	left, err := r.config.Rests.Resting(ctx, p.Site)
	if err == nil {
		return nil
	}
	r.rest(p.Site, r.config.Now().Add(left))
	return &schedule.Refusal{Class: schedule.Quota, Rest: left, Err: err}
}

// note remembers a refusal for the others whom it concerns.
func (r *run) note(ctx context.Context, p Property, err error) {
	switch schedule.ClassOf(err) {
	case schedule.ConnectionLost:
		r.mu.Lock()
		r.lost[p.Connection] = err
		r.mu.Unlock()
	case schedule.Quota:
		until := r.config.Now().Add(schedule.RestOf(err))
		r.rest(p.Site, until)
		if r.config.Rests != nil {
			r.config.Rests.Rest(ctx, p.Site, err, until)
		}
	}
}

func (r *run) rest(site string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting[site] = until
}

// rests returns until when a site rests, and whether it does.
func (r *run) rests(site string) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, ok := r.resting[site]
	return until, ok && until.After(r.config.Now())
}
