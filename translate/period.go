package translate

import (
	"fmt"
	"time"
)

// A Period is the resolved date range of a request, with its name in meta.date_range.
type Period struct {
	DateRange
	Preset string // one of Presets, or PresetCustom
}

// PresetCustom names a period given by start_date and end_date.
const PresetCustom = "custom"

// DefaultPreset is the period of a request that names none.
const DefaultPreset = "last_28d"

// Presets returns the values of date_range (spec: Date range presets).
func Presets() []string {
	return []string{"last_7d", DefaultPreset, "last_30d", "last_90d", "last_3m", "last_6m", "last_12m", "last_16m",
		"month_to_date", "previous_month", "year_to_date", "previous_year"}
}

// presetRange resolves a preset relative to the anchor, since the days after it have no final data. The last N months start
// on the day after the anchor's day of the month, N months before.
func presetRange(preset string, anchor Date) (DateRange, bool) {
	days := func(n Date) DateRange { return DateRange{Start: anchor - n + 1, End: anchor} }
	months := func(n int) DateRange { return DateRange{Start: anchor.AddMonths(-n) + 1, End: anchor} }
	month := anchor.MonthStart()
	year := NewDate(anchor.Time().Year(), time.January, 1)
	switch preset {
	case "last_7d":
		return days(7), true
	case DefaultPreset:
		return days(28), true
	case "last_30d":
		return days(30), true
	case "last_90d":
		return days(90), true
	case "last_3m":
		return months(3), true
	case "last_6m":
		return months(6), true
	case "last_12m":
		return months(12), true
	case "last_16m":
		return months(16), true
	case "month_to_date":
		return DateRange{Start: month, End: anchor}, true
	case "previous_month":
		return DateRange{Start: (month - 1).MonthStart(), End: month - 1}, true
	case "year_to_date":
		return DateRange{Start: year, End: anchor}, true
	case "previous_year":
		return DateRange{Start: year.AddMonths(-12), End: year - 1}, true
	}
	return DateRange{}, false
}

// resolvePeriod sets the period from the three date parameters. Exact dates win over a preset, with a note if that was given, because
// they are more explicit.
func (p *Params) resolvePeriod(w Window, presetGiven bool) error {
	if p.From == nil && p.To == nil {
		r, ok := presetRange(p.preset, w.Anchor)
		if !ok {
			return fmt.Errorf("BUG: preset %q passed its parameter's choices", p.preset)
		}
		p.Period = Period{DateRange: r, Preset: p.preset}
		p.noteCalendar(w.Anchor)
		return p.checkReach(w)
	}
	if p.From == nil || p.To == nil {
		return invalid("start_date and end_date go together: give both, or neither")
	}
	from, to := *p.From, *p.To
	if from > w.Anchor {
		return invalid("start_date %s is after %s, the last day with final data", from, w.Anchor)
	}
	if to > w.Anchor {
		p.Notes = append(p.Notes, fmt.Sprintf("end_date %s was moved back to %s, the last day with final data.", to, w.Anchor))
		to = w.Anchor
	}
	if presetGiven {
		p.Notes = append(p.Notes, fmt.Sprintf("start_date and end_date were used; date_range %s was not.", p.preset))
	}
	p.Period = Period{DateRange: DateRange{Start: from, End: to}, Preset: PresetCustom}
	return p.checkReach(w)
}

// noteCalendar says which month or year a preset means while the anchor's is not today's.
func (p *Params) noteCalendar(anchor Date) {
	layout := "January 2006"
	switch p.preset {
	case "month_to_date", "previous_month":
	case "year_to_date", "previous_year":
		layout = "2006"
	default:
		return
	}
	of := func(d Date) string { return d.Time().Format(layout) }
	if of(anchor) != of(anchor+anchorLag) {
		p.Notes = append(p.Notes, fmt.Sprintf("%s is relative to the last day with final data, %s, so it covers %s.", p.preset, anchor, of(p.Period.Start)))
	}
}

// checkReach refuses a request for days before the plan's retention.
func (p *Params) checkReach(w Window) error {
	start, compared := p.Period.Start, ""
	if start >= w.Earliest {
		start, compared = p.Span().Start, " with the period before it"
		if p.Compare == PreviousYear {
			compared = " with " + p.Compare.String()
		}
	}
	if start >= w.Earliest {
		return nil
	}
	what := "the range"
	if p.Period.Preset != PresetCustom {
		what = "date_range " + p.Period.Preset
	}
	return &InputError{Code: CodeDateRangeTooOld, Message: fmt.Sprintf(
		"%s%s starts on %s, before the history that the plan keeps; the earliest date allowed is %s", what, compared, start, w.Earliest)}
}
