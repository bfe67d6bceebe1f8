package translate

import "fmt"

// A Series is the figures of every day of a range; a day without data has zeros.
type Series struct {
	first Date
	days  []Metrics
}

// SeriesOf makes the series over r of rows by date, as the answer to a SeriesQuery has them: the upstream may leave out days
// without data, or send them as zeros, and both come out as zeros. A row that is not a day of r, or is there twice, is an
// error.
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

// Totals returns the figures of all days of r together: sums, and the position weighted by impressions, because the
// average position of a day says nothing of how many impressions it stands for. r lies within the range of the series.
func (s *Series) Totals(r DateRange) Metrics {
	var total Metrics
	var positions float64
	for _, day := range s.days[r.Start-s.first : r.End-s.first+1] {
		total.Clicks += day.Clicks
		total.Impressions += day.Impressions
		positions += day.Position * float64(day.Impressions)
	}
	if total.Impressions > 0 {
		total.CTR = float64(total.Clicks) / float64(total.Impressions)
		total.Position = positions / float64(total.Impressions)
	}
	return total
}
