package report

import "slices"

// Summarize sets the ratios from the rounds.
func (c *Comparison) Summarize() {
	c.Throughput = c.ratio(func(t Turn) float64 { return t.Throughput })
	c.PerCPU = c.ratio(func(t Turn) float64 { return t.PerCPU })
	c.P99 = c.ratio(func(t Turn) float64 { return t.P99 })
}

func (c *Comparison) ratio(figure func(Turn) float64) Ratio {
	var ratios []float64
	for _, round := range c.Rounds {
		if other := figure(round.Other); other > 0 {
			ratios = append(ratios, figure(round.Sara)/other)
		}
	}
	if len(ratios) == 0 {
		return Ratio{}
	}
	slices.Sort(ratios)
	middle := len(ratios) / 2
	median := ratios[middle]
	if len(ratios)%2 == 0 {
		median = (ratios[middle-1] + median) / 2
	}
	return Ratio{Median: median, Least: ratios[0], Most: ratios[len(ratios)-1]}
}
