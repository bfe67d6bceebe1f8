package bulkexport

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sara/archive"
	"sara/translate"
)

// archive archives the months that have not been archived yet; with Options.Replace all, since to archive one again changes nothing.
func (i *importing) archive(ctx context.Context, history History, o Options, result *Result) error {
	inventory, err := history.Days(ctx, o.Property)
	if err != nil {
		return err
	}
	due := i.due(inventory, result)
	months := due.months()
	if i.state.Months == nil {
		i.state.Months = make(map[string]monthResult)
	}
	for n, month := range months {
		o.Progress.Writing(n, len(months))
		name := month.String()
		// With Replace, what is archived does not show whose it is: another archive may have other figures of the same days.
		if _, archived := i.state.Months[name]; !archived || o.Replace || !due.isArchived(inventory, month) {
			done, err := i.archiveMonth(ctx, history, o, month, due)
			if err != nil {
				return err
			}
			i.state.Months[name] = done
			if err := i.folder.save(i.state); err != nil {
				return err
			}
		}
		result.add(i.state.Months[name])
	}
	o.Progress.Writing(len(months), len(months))
	return nil
}

// dueDays are the days to archive: with pages, and with everything else.
type dueDays struct{ site, pages days }

// due returns the days to archive, and records in the result those that are left out, or archived without pages.
func (i *importing) due(inventory archive.Inventory, result *Result) dueDays {
	site := known(i.state.SiteDays, i.logged(Site), i.until)
	pages := known(i.state.URLDays, i.logged(URL), i.until)
	result.UnloggedDays = missing(i.state.SiteDays, i.logged(Site), i.state.URLDays, i.logged(URL))
	for _, day := range slices.Sorted(maps.Keys(pages)) {
		if !site[day] && !inventory[translate.ByDate].Has(day) {
			delete(pages, day)
			result.PagesOnly = append(result.PagesOnly, day)
		}
	}
	for _, day := range slices.Sorted(maps.Keys(site)) {
		if !pages[day] {
			result.TotalsOnly = append(result.TotalsOnly, day)
		}
	}
	return dueDays{site, pages}
}

// has reports whether the rows of a day by a dimension are archived.
func (d dueDays) has(day translate.Date, by translate.Dimension) bool {
	if by == translate.ByPage {
		return d.pages[day]
	}
	return d.site[day]
}

// months returns the first days of the months with such days, in order.
func (d dueDays) months() []translate.Date {
	months := make(days)
	for _, set := range []days{d.site, d.pages} {
		for day := range set {
			months[day.MonthStart()] = true
		}
	}
	return slices.Sorted(maps.Keys(months))
}

// isArchived reports whether all days of a month are archived already. They may have been deleted since, or the archive may be another one.
func (d dueDays) isArchived(inventory archive.Inventory, month translate.Date) bool {
	for day := month; day < month.AddMonths(1); day++ {
		for _, by := range archive.Dimensions() {
			if d.has(day, by) && !inventory[by].Has(day) {
				return false
			}
		}
	}
	return true
}

// monthResult records what was done with a month.
type monthResult struct {
	archive.ImportResult
	Zero []translate.Date
}

func (r *Result) add(m monthResult) {
	r.ImportResult.Rows += m.ImportResult.Rows
	r.Days += m.Days
	r.Kept += m.Kept
	r.DroppedRows += m.DroppedRows
	r.Differing = append(r.Differing, m.Differing...)
	r.Zero = append(r.Zero, m.Zero...)
}

func (i *importing) archiveMonth(ctx context.Context, history History, o Options, month translate.Date, due dueDays) (
	done monthResult, err error) {
	builders := make(map[group]*archive.DayBuilder)
	var ordered []*archive.DayBuilder
	for day := month; day < month.AddMonths(1); day++ {
		for _, by := range archive.Dimensions() {
			if due.has(day, by) {
				b := archive.NewDayBuilder(day, by)
				builders[group{day, by}], ordered = b, append(ordered, b)
			}
		}
	}
	total := make(days)
	var last *archive.DayBuilder
	err = i.mergeMonth(ctx, i.state.Runs, month, func(g group, key []byte, f figures) error {
		b := builders[g]
		if b == nil {
			return nil // pages without totals
		}
		if last != nil && last != b {
			if err := last.Prune(); err != nil {
				return err
			}
		}
		last = b
		total[g.date] = total[g.date] || g.by == translate.ByDate
		return b.Add(key, f.clicks, f.impressions, f.positions/float64(f.impressions)+1)
	})
	if err != nil {
		return done, fmt.Errorf("%s: %w", month.Time().Format("2006-01"), err)
	}
	for day := month; day < month.AddMonths(1); day++ {
		if due.site[day] && !total[day] {
			done.Zero = append(done.Zero, day)
		}
	}
	done.ImportResult, err = history.ImportDays(ctx, o.Property, ordered, archive.ImportOptions{Replace: o.Replace, Provisional: o.Provisional})
	return done, err
}

// known returns the days of which a table has all rows: without an export log, those that it has rows of the property for; with one,
// those of the log within the property's first and last day.
func known(seen, logged days, until translate.Date) days {
	if logged == nil || len(seen) == 0 {
		return maps.Clone(seen)
	}
	first, last := slices.Min(slices.Collect(maps.Keys(seen))), slices.Max(slices.Collect(maps.Keys(seen)))
	all := make(days)
	for day := range logged {
		if day >= first && day <= min(last, until) {
			all[day] = true
		}
	}
	return all
}

// missing returns the days with rows that the log lacks.
func missing(site, siteLog, url, urlLog days) []translate.Date {
	if siteLog == nil {
		return nil
	}
	all := make(days)
	for day := range site {
		all[day] = all[day] || !siteLog[day]
	}
	for day := range url {
		all[day] = all[day] || !urlLog[day]
	}
	maps.DeleteFunc(all, func(_ translate.Date, lacks bool) bool { return !lacks })
	return slices.Sorted(maps.Keys(all))
}
