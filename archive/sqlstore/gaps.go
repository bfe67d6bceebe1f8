package sqlstore

import (
	"fmt"
	"slices"
	"strings"

	"sara/translate"
)

// Cover records the first and the last archived day, nil if there is none, and the months between them without an archived day.
// Such a month is a gap, unless it is known to have been archived before: then it has been lost.
func (a *ArchiveState) Cover(first, last *translate.Date, empty []translate.Date) {
	gaps := make([]translate.Date, 0, len(empty))
	for _, month := range empty {
		if !a.HadMonth(month) {
			gaps = append(gaps, month)
		}
	}
	a.First, a.Last, a.Gaps = first, last, gaps
}

// HadMonth reports whether any day of a month, which is given by its first day, is known to have been archived.
func (a *ArchiveState) HadMonth(month translate.Date) bool {
	end := month.AddMonths(1)
	if a.First == nil || a.Last == nil || end <= *a.First || month > *a.Last {
		return false
	}
	if month <= *a.First || end > *a.Last {
		return true // it contains the first or the last archived day
	}
	return a.Gaps != nil && !slices.Contains(a.Gaps, month)
}

const gapLayout = "2006-01"

// gapsText is the stored form of gaps.
func gapsText(gaps []translate.Date) any {
	if gaps == nil {
		return nil
	}
	months := make([]string, len(gaps))
	for i, month := range gaps {
		months[i] = month.Time().Format(gapLayout)
	}
	return strings.Join(months, ",")
}

// gapsOf scans the stored form of gaps, or NULL as nil.
type gapsOf struct{ dst *[]translate.Date }

func (g gapsOf) Scan(v any) error {
	*g.dst = nil
	if v == nil {
		return nil
	}
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("%T is not a list of months", v)
	}
	*g.dst = []translate.Date{}
	if text == "" {
		return nil
	}
	for month := range strings.SplitSeq(text, ",") {
		first, err := translate.ParseDate(month + "-01")
		if err != nil {
			return fmt.Errorf("%q is not a month", month)
		}
		*g.dst = append(*g.dst, first)
	}
	return nil
}
