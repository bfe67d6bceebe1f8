package translate

import "fmt"

// A Series has the figures of every day of a range.
type Series struct {
	first Date
	days  []Metrics
}

// SeriesOf returns the series over r of the result of a SeriesQuery. Days without data, which the upstream omits or sends as
// zeros, have zeros. A row that is not a day of r, or a duplicate, is an error.
func SeriesOf(rows *Rows, r DateRange) (*Series, error) {
	s := &Series{first: r.Start, days: make([]Metrics, r.Days())}
	seen := make([]bool, len(s.days))
	for i := range rows.Len() {
		day, err := ParseDate(string(rows.Key(i)))
		if err != nil || day < r.Start || day > r.End {
			return nil, fmt.Errorf("upstream row %d: %q is not a day from %s to %s", i, rows.Key(i), r.Start, r.End)
		}
		n := int(day - r.Start)
		if seen[n] {
			return nil, fmt.Errorf("upstream row %d: %s is there twice", i, day)
		}
		seen[n], s.days[n] = true, rows.Metrics(i)
	}
	return s, nil
}

// Totals returns the figures of all days of r together, see Sum. r lies within the range of the series.
func (s *Series) Totals(r DateRange) Metrics {
	var total Sum
	for _, day := range s.days[r.Start-s.first : r.End-s.first+1] {
		total.Add(day.Clicks, day.Impressions, day.Position)
	}
	return total.Metrics()
}
