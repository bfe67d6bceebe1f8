package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/jobs/collector"
	"sara/translate"
)

type archiveVerify struct {
	storeFlags
	settings.Archive
	console.Output
	Property string `placeholder:"PROPERTY" help:"Verify only this property: its id, Search Console property, slug or domain; default: all."`
	Repair   bool   `help:"Set damaged objects aside, under damaged/ in the same bucket, and let the next collection fetch the days that are missing. Nothing is destroyed."`
}

// archiveVerifyRecord is what was found about the archive of one property.
type archiveVerifyRecord struct {
	ID          string           `json:"id"`
	GSCProperty string           `json:"gsc_property"`
	Objects     int              `json:"objects"`
	Bytes       int64            `json:"bytes"`
	Days        int              `json:"days"`
	Rows        int              `json:"rows"`
	Gaps        []string         `json:"gaps"` // months within the archive, YYYY-MM, that were never archived: their days are unknown
	Problems    []archiveProblem `json:"problems"`
}

// An archiveProblem is a month that is damaged, or that the database has and the archive lacks.
type archiveProblem struct {
	Month    string  `json:"month"` // YYYY-MM
	State    string  `json:"state"` // damaged or missing
	Reason   string  `json:"reason"`
	Repaired bool    `json:"repaired"` // the next collection fetches what Search Console still has
	MovedTo  *string `json:"moved_to"` // where a damaged object is now; null if it was not moved
}

func (r archiveVerifyRecord) Columns() []console.Column {
	return []console.Column{{"GSC PROPERTY", r.GSCProperty}, {"OBJECTS", strconv.Itoa(r.Objects)}, {"BYTES", strconv.FormatInt(r.Bytes, 10)},
		{"DAYS", strconv.Itoa(r.Days)}, {"ROWS", strconv.Itoa(r.Rows)}, {"GAPS", strconv.Itoa(len(r.Gaps))},
		{"PROBLEMS", strconv.Itoa(len(r.Problems))}, {"ID", r.ID}}
}

func (c *archiveVerify) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		properties, err := jobs.Chosen(ctx, store, c.Property, store.ArchivableProperties, func(p sqlstore.ArchivableProperty) string { return p.ID })
		if err != nil {
			return err
		}
		history, err := backend.OpenArchive(c.Archive, con.Now)
		if err != nil {
			return err
		}
		advance, end := newCountBar(con.Stderr, len(properties), progressbar.OptionFullWidth(), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionSetItsString("properties"), progressbar.OptionThrottle(redraw))
		defer end()
		v := verification{store: store, history: history, repair: c.Repair}
		records := make([]archiveVerifyRecord, len(properties))
		for i, p := range properties {
			if records[i], err = v.property(ctx, p); err != nil {
				return err
			}
			advance()
		}
		end()
		return c.report(con, records)
	})
}

// report prints what was found. It is an error if a problem is left.
func (c *archiveVerify) report(con *console.Console, records []archiveVerifyRecord) error {
	if err := console.Many(c.Output, con.Stdout, records); err != nil {
		return err
	}
	left, repaired := 0, 0
	for _, r := range records {
		for _, p := range r.Problems {
			if p.Repaired {
				repaired++
			} else {
				left++
			}
		}
		if c.JSON {
			continue
		}
		if err := r.explain(console.Text(con.Stdout)); err != nil {
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("%s of the archive %s damaged or missing: restore from a backup, or run %s", english.Plural(left, "month", ""),
			english.PluralWord(left, "is", "are"), console.CommandLine("archive", "verify", "--repair"))
	}
	if repaired > 0 {
		con.Next(c.Output, "collect what is missing, or leave it to the daily run of sara serve.", console.CommandLine("collect"))
	}
	return nil
}

// explain writes a line for each problem, and one for the gaps.
func (r archiveVerifyRecord) explain(w io.Writer) error {
	var text strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&text, "%s: %s is %s: %s%s\n", r.GSCProperty, p.Month, p.State, p.Reason, p.repair())
	}
	if len(r.Gaps) > 0 {
		fmt.Fprintf(&text, "%s: never archived, so unknown: %s\n", r.GSCProperty, strings.Join(r.Gaps, ", "))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (p archiveProblem) repair() string {
	switch {
	case p.MovedTo != nil:
		return "; moved to " + *p.MovedTo
	case p.Repaired:
		return "; it will be collected again"
	}
	return ""
}

// A verification verifies properties, and repairs them if it may.
type verification struct {
	store   *sqlstore.Store
	history *archive.History
	repair  bool
}

// property verifies the archive of a property.
func (v verification) property(ctx context.Context, p sqlstore.ArchivableProperty) (archiveVerifyRecord, error) {
	r := archiveVerifyRecord{ID: p.ID, GSCProperty: p.Site, Gaps: []string{}, Problems: []archiveProblem{}}
	stored := map[string]bool{}
	var damaged []archive.Verified
	err := v.history.Verify(ctx, p.ID, func(found archive.Verified) {
		r.Objects++
		r.Bytes += found.Bytes
		r.Days += found.Days
		r.Rows += found.Rows
		stored[monthName(found.Month)] = true
		if found.Err != nil {
			damaged = append(damaged, found)
		}
	})
	if err != nil {
		return r, err
	}
	for _, found := range damaged {
		problem, err := v.setAside(ctx, p.ID, found)
		if err != nil {
			return r, err
		}
		r.Problems = append(r.Problems, problem)
	}
	for _, first := range monthsOf(p.State) {
		switch month := monthName(first); {
		case stored[month]:
		case p.State.HadMonth(first):
			r.Problems = append(r.Problems, archiveProblem{Month: month, State: "missing", Repaired: v.repair,
				Reason: "the database has recorded days of it, and there is no object"})
		default:
			r.Gaps = append(r.Gaps, month)
		}
	}
	return r, v.makeDue(ctx, p.ID, r.Problems)
}

// setAside moves a damaged object if it may.
func (v verification) setAside(ctx context.Context, property string, found archive.Verified) (archiveProblem, error) {
	problem := archiveProblem{Month: monthName(found.Month), State: "damaged", Reason: found.Err.Error()}
	if broken, ok := errors.AsType[*archive.ObjectError](found.Err); ok {
		problem.Reason = broken.Reason.Error()
	}
	if !v.repair {
		return problem, nil
	}
	aside, err := v.history.SetAside(ctx, property, found.Month)
	switch {
	case errors.As(err, new(*archive.ObjectError)):
		problem.Reason += "; it cannot be copied: move it out of the archive yourself"
		return problem, nil
	case err != nil:
		return problem, err
	}
	problem.Repaired, problem.MovedTo = true, &aside
	return problem, nil
}

// makeDue records the days that are left after a repair, and that the property was not collected since: the next daily run takes it. Months
// that are lost become gaps, until they are collected again.
func (v verification) makeDue(ctx context.Context, property string, problems []archiveProblem) error {
	var months []string // that are repaired
	for _, p := range problems {
		if p.Repaired {
			months = append(months, p.Month)
		}
	}
	if len(months) == 0 {
		return nil
	}
	state, err := v.store.ArchiveState(ctx, property)
	if err != nil {
		return err
	}
	state.First, state.Last, state.CollectedAt = nil, nil, nil
	if err := collector.Cover(ctx, v.history, &state); err != nil {
		return err
	}
	return v.store.RecordArchiveChange(ctx, state, "archive.repair", map[string]any{"months": months})
}

// monthsOf returns the months from the first archived day to the last, each its first day.
func monthsOf(s sqlstore.ArchiveState) (months []translate.Date) {
	if s.First == nil || s.Last == nil {
		return nil
	}
	for first := s.First.MonthStart(); first <= *s.Last; first = first.AddMonths(1) {
		months = append(months, first)
	}
	return months
}

// monthName names the month of a day.
func monthName(day translate.Date) string { return day.Time().Format("2006-01") }
