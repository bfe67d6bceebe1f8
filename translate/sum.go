package translate

// A Sum adds up rows. Its position is the impression-weighted average, because the average position of a row does not say
// how many impressions it stands for. The zero Sum is empty.
type Sum struct {
	Clicks, Impressions int64
	positions           float64 // each times its impressions
}

// Add adds the figures of a row.
func (s *Sum) Add(clicks, impressions int64, position float64) {
	s.Clicks += clicks
	s.Impressions += impressions
	s.positions += position * float64(impressions)
}

// Metrics returns the figures of all added rows together.
func (s *Sum) Metrics() Metrics {
	m := Metrics{Clicks: s.Clicks, Impressions: s.Impressions}
	if s.Impressions > 0 {
		m.CTR = float64(s.Clicks) / float64(s.Impressions)
		m.Position = s.positions / float64(s.Impressions)
	}
	return m
}
