package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sara/archive"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// mostFailures is how many consecutive days must fail before the upstream counts as down.
const mostFailures = 3

// isOfDay reports whether an error concerns only its day, so that other days may still succeed. The upstream may keep refusing one day:
// that must not keep the later ones out of the archive, since it drops a day every day.
func isOfDay(ctx context.Context, err error) bool {
	kind := schedule.KindOf(err)
	return context.Cause(ctx) == nil && (kind == upstream.Unavailable || kind == upstream.Rejected)
}

// collect archives what a property lacks. When it fails, the days before the failure are archived, and so are those after single days
// that fail. lasting is why other days are left out, which another attempt does not change: they are contradicted, or in damaged months.
func (r *run) collect(ctx context.Context, t *task) (err, lasting error) {
	p := t.Property
	inventory, lasting := r.config.History.Days(ctx, p.PropertyID)
	damaged, _ := errors.AsType[*archive.DamageError](lasting)
	if lasting != nil && damaged == nil {
		return lasting, nil
	}
	gaps := r.gaps(inventory, damaged, p.RetentionMonths)
	if len(gaps) == 0 {
		return nil, lasting
	}
	r.config.Progress.Started(p.Target, len(gaps))
	c := collection{run: r, task: t}
	if c.totals, err = r.totals(ctx, p, gaps[0].day); err != nil {
		return err, lasting
	}
	err = c.archiveDays(ctx, gaps)
	if c.left > 0 {
		r.config.Progress.Noticed(p.Target, c.left)
	}
	if len(c.contradicted) > 0 {
		lasting = schedule.JoinLine(&ContradictionError{Days: c.contradicted}, lasting)
	}
	return err, lasting
}

// A collection is an attempt to collect the missing days of a property.
type collection struct {
	*run
	task         *task
	totals       totals
	buffer       buffer
	left         LeftRows         // rows that cannot be archived
	contradicted []translate.Date // days about which the upstream contradicts itself
}

// archiveDays archives the missing days. It returns the error that ended it or, if none did, that of the first day that was left out.
func (c *collection) archiveDays(ctx context.Context, gaps []gap) (err error) {
	p := c.task.Property
	failed := 0 // consecutive days
	for _, g := range gaps {
		days, consistent, queryErr := c.day(ctx, g)
		if queryErr != nil {
			failed++
			if failed == mostFailures || !isOfDay(ctx, queryErr) {
				err = queryErr
				break
			}
			err = cmp.Or(err, queryErr)
			continue
		}
		failed = 0
		if !consistent {
			c.contradicted = append(c.contradicted, g.day)
		}
		c.buffer.add(g.day, days)
		if c.buffer.count >= c.config.FlushDays || c.buffer.endsMonth() {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
		c.config.Progress.Advanced(p.Target, p.Site+" "+g.day.String())
	}
	return cmp.Or(err, c.flush(ctx))
}

// LeftRows is the notice that a number of rows were left out: they have no key, or one that is too long to archive.
type LeftRows int

func (n LeftRows) String() string {
	return fmt.Sprintf("rows not archived, because they have no key, or one of more than %d bytes: %d", archive.LongestKey, int(n))
}

// buffer holds days that have not been written yet.
type buffer struct {
	days  []archive.Day
	last  translate.Date
	count int
}

func (b *buffer) add(day translate.Date, days []archive.Day) {
	b.last = day
	if len(days) > 0 {
		b.days, b.count = append(b.days, days...), b.count+1
	}
}

// endsMonth reports whether the last day is the end of its month.
func (b *buffer) endsMonth() bool { return (b.last + 1).Time().Day() == 1 }

// flush writes the buffer. Once ctx has ended, it writes nothing.
func (c *collection) flush(ctx context.Context) error {
	b, t := &c.buffer, c.task
	if len(b.days) == 0 {
		return nil
	}
	if err := c.config.History.Merge(ctx, t.Property.PropertyID, b.days); err != nil {
		return err
	}
	for i := range b.days {
		t.archived[b.days[i].Date] = true
	}
	t.Days, t.reached = len(t.archived), max(t.reached, b.last)
	*b = buffer{}
	return nil
}

// totals are the metrics of whole days.
type totals struct {
	days      map[translate.Date]translate.Metrics // the days that the upstream shows
	last      translate.Date                       // the last day with figures; 0: none
	published translate.Date                       // the last day certainly published
	lost      translate.Date                       // the last day lost at the start of its window; 0: none
}

// totals queries the days from first to the anchor with one call, plus the days that show what is not published yet and what is lost.
func (r *run) totals(ctx context.Context, p Property, first translate.Date) (totals, error) {
	dates := translate.LatestDays(r.anchor)
	dates.Start = min(dates.Start, first)
	live := translate.NewWindow(r.anchor, p.RetentionMonths).Live()
	if first <= live.Start+translate.LongestLag {
		dates.Start = live.Start
	}
	rows, err := r.query(ctx, p, translate.SeriesQuery(p.Site, dates, nil))
	if err != nil {
		return totals{}, err
	}
	shown := make(map[translate.Date]translate.Metrics, rows.Len())
	for i := range rows.Len() {
		if day, err := translate.ParseDate(string(rows.Key(i))); err == nil {
			shown[day] = rows.Metrics(i)
		}
	}
	known := translate.KnownDaysOf(rows, dates)
	_, last, _ := known.Bounds()
	return totals{shown, last, known.Published(r.anchor), translate.LostUntil(rows, live)}, nil
}

// day queries what is missing of a day. consistent is false if the answers contradict each other; then there is nothing to
// archive. Nor is there for a day that may not be published yet, or that the upstream has lost.
func (c *collection) day(ctx context.Context, g gap) (days []archive.Day, consistent bool, err error) {
	all := &c.totals
	settled := g.day <= c.anchor-settledDays
	final := settled || g.day <= all.last-ProvisionalDays
	total, shown := all.days[g.day]
	switch {
	case g.day > all.published, !shown && !final, g.day <= all.lost:
		return nil, true, nil
	case total.Impressions == 0 && g.archived && !settled:
		return nil, true, nil
	case total.Impressions == 0:
		// One more query makes sure that the day is not just missing from the series.
		rows, err := c.query(ctx, c.task.Property, translate.DayQuery(c.task.Property.Site, translate.ByDevice, g.day, archive.TopRows))
		if err != nil || hasTraffic(rows) {
			return nil, false, err
		}
		for _, by := range g.dimensions {
			days = append(days, archive.Day{Date: g.day, Dimension: by, Final: settled}) // the upstream may fill a gap
		}
		return days, true, nil
	}
	for _, by := range g.dimensions {
		rows, err := c.rows(ctx, by, g.day)
		if err != nil {
			return nil, false, err
		}
		// The upstream withholds rare search queries, possibly all of a day. It withholds nothing under the other dimensions.
		if by != translate.ByQuery && !hasTraffic(rows) {
			return nil, false, nil
		}
		days = append(days, archive.Day{Date: g.day, Dimension: by, Rows: rows, Final: final})
	}
	return days, true, nil
}

// spareRows are requested in addition to those archived, so that a day stays full when some rows are left out or added up.
const spareRows = 10

// rows returns the rows of a day: for ByDate the total, which is already known, otherwise those of a query.
func (c *collection) rows(ctx context.Context, by translate.Dimension, day translate.Date) (*translate.Rows, error) {
	if by == translate.ByDate {
		var b translate.RowsBuilder
		b.Add(nil, c.totals.days[day])
		return b.Rows(), nil
	}
	p := c.task.Property
	rows, err := c.query(ctx, p, translate.DayQuery(p.Site, by, day, archive.TopRows+spareRows))
	if err != nil {
		return nil, err
	}
	tidy, left := archive.Tidy(by, rows)
	c.left += LeftRows(left)
	return tidy, nil
}

func hasTraffic(rows *translate.Rows) bool {
	for i := range rows.Len() {
		if rows.Metrics(i).Impressions > 0 {
			return true
		}
	}
	return false
}

// query makes one call when the limits and the traffic of customers allow it. It yields to customers for at most BusyLimit,
// because the upstream drops a day every day. The limits allow no burst, because the upstream counts bursts too.
func (r *run) query(ctx context.Context, p Property, q translate.Query) (*translate.Rows, error) {
	if err := r.config.Pace(ctx, &r.limiter, schedule.Limit{Name: "site " + p.Site, PerMinute: r.config.PerSite},
		schedule.Limit{Name: "connection " + p.ConnectionID, PerMinute: r.config.PerConnection}); err != nil {
		return nil, err
	}
	if err := r.knownFailure(p); err != nil {
		return nil, err
	}
	rows, err := r.config.Gateway.Query(ctx, p.Target, q)
	if err != nil && context.Cause(ctx) == nil {
		r.remember(p, err)
	}
	return rows, err
}
