package archive

import (
	"bytes"
	"slices"

	"sara/translate"
)

// A Difference is an archived day that an import kept although its clicks or impressions differ from those of the import.
type Difference struct {
	Date               translate.Date
	Dimension          translate.Dimension
	Archived, Imported Figures
}

// Figures are the sums of a day's archived rows.
type Figures struct{ Clicks, Impressions int64 }

// difference compares the archived rows of a day with those of an import. Positions are not compared, because every source rounds them
// differently.
func difference(e *entry, archived []row) (Difference, bool) {
	same := slices.EqualFunc(archived, e.rows, func(a, b row) bool {
		return a.clicks == b.clicks && a.impressions == b.impressions && bytes.Equal(a.key, b.key)
	})
	return Difference{Date: e.date, Dimension: e.by, Archived: figures(archived), Imported: figures(e.rows)}, !same
}

func figures(rows []row) (sum Figures) {
	for _, r := range rows {
		sum.Clicks += r.clicks
		sum.Impressions += r.impressions
	}
	return sum
}
