package report

import "slices"

// Summarize computes the ratios from the rounds.
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
	return SpreadOf(ratios)
}

// SpreadOf sorts the values and returns their median and range, all zero for no values.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + median) / 2
	}
	return Spread{Median: median, Least: values[0], Most: values[len(values)-1]}
}
