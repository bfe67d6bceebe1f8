package report

import "slices"

// AddComparisons adds the rounds of a run to those of earlier runs.
func (r *Report) AddComparisons(run int, comparisons []Comparison) {
	for _, c := range comparisons {
		for i := range c.Rounds {
			c.Rounds[i].Run = run
		}
		i := slices.IndexFunc(r.Comparisons, func(known Comparison) bool { return known.With == c.With })
		if i < 0 {
			r.Comparisons = append(r.Comparisons, c)
			continue
		}
		r.Comparisons[i].Rounds = append(r.Comparisons[i].Rounds, c.Rounds...)
	}
}

// Summarize computes the ratios from the rounds.
func (c *Comparison) Summarize() {
	c.Throughput = c.ratio(func(t Turn) float64 { return t.Throughput })
	c.PerCPU = c.ratio(func(t Turn) float64 { return t.PerCPU })
	c.P99 = c.ratio(func(t Turn) float64 { return t.P99 })
}

// ratio returns the median and range of the ratios of the rounds. With several runs, it takes the medians of each run.
func (c *Comparison) ratio(figure func(Turn) float64) Ratio {
	ratios := map[int][]float64{} // by run
	for _, round := range c.Rounds {
		if other := figure(round.Other); other > 0 {
			ratios[round.Run] = append(ratios[round.Run], figure(round.Sara)/other)
		}
	}
	if len(ratios) == 1 {
		for _, rounds := range ratios {
			return SpreadOf(rounds)
		}
	}
	var medians []float64
	for _, rounds := range ratios {
		medians = append(medians, SpreadOf(rounds).Median)
	}
	return SpreadOf(medians)
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
