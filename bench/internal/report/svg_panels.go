package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// latencyPanels is one panel: the calmest open loop of each scenario, by percentiles on a scale that widens towards the
// slow end. A curve ends where less than one request is left to tell of.
func (r *Report) latencyPanels() ([]*plot.Plot, error) {
	p := newPlot("Latency in open loops at half of the most throughput, from when a request was due")
	p.X.Label.Text, p.Y.Label.Text = "percentile", "ms"
	p.Add(grid())
	least, most := math.Inf(1), 0.0
	drawn := 0
	for _, m := range r.calmest() {
		points := m.curvePoints()
		if len(points) < 2 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Dashes, line.Width = colorOf(drawn), dashesOf(drawn), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("%s, %.0f/s", m.Scenario, m.Rate), line)
		least, most = min(least, points[0].Y), max(most, points[len(points)-1].Y)
		drawn++
	}
	if drawn == 0 {
		return nil, nil
	}
	logAxis(&p.Y, least, most)
	p.X.Min, p.X.Max = 0, 3.05
	var ticks plot.ConstantTicks
	for _, percent := range []float64{0, 50, 75, 90, 95, 99, 99.5, 99.9} {
		ticks = append(ticks, plot.Tick{Value: tailward(percent), Label: fmt.Sprint(percent)})
	}
	p.X.Tick.Marker = ticks
	return []*plot.Plot{p}, nil
}

// tailward spreads percentiles so that each nine takes the same room.
func tailward(percent float64) float64 { return -math.Log10(1 - percent/100) }

// calmest returns the open loop of each scenario with the lowest rate, in their order.
func (r *Report) calmest() (calm []*Measurement) {
	for i := range r.Measurements {
		m := &r.Measurements[i]
		at := slices.IndexFunc(calm, func(other *Measurement) bool { return other.Scenario == m.Scenario })
		switch {
		case m.Loop != Open:
		case at < 0:
			calm = append(calm, m)
		case m.Rate < calm[at].Rate:
			calm[at] = m
		}
	}
	return calm
}

func (m *Measurement) curvePoints() (points plotter.XYs) {
	for i, percent := range CurvePercentiles() {
		if percent > 99.9 || i >= len(m.Curve) || float64(m.Requests)*(1-percent/100) < 1 {
			break
		}
		if m.Curve[i] > 0 {
			points = append(points, plotter.XY{X: tailward(percent), Y: m.Curve[i]})
		}
	}
	return points
}

// A bar is a median with its spread.
type bar struct {
	name               string
	value, least, most float64
}

// throughputPanels are answers a second, and a second of processor time, of sara and those it was compared with.
func (r *Report) throughputPanels() (panels []*plot.Plot, err error) {
	if len(r.Comparisons) == 0 {
		return nil, nil
	}
	for _, figure := range []struct {
		title string
		of    func(Turn) float64
	}{
		{"Answers a second: median, least and most of the rounds", func(t Turn) float64 { return t.Throughput }},
		{"Answers in a second of the servers' processor time", func(t Turn) float64 { return t.PerCPU }},
	} {
		bars := []bar{{name: "sara"}}
		turns := make([][]float64, 1)
		for _, round := range r.Comparisons[0].Rounds { // sara's turns are the same in all comparisons
			turns[0] = append(turns[0], figure.of(round.Sara))
		}
		for i, c := range r.Comparisons {
			bars, turns = append(bars, bar{name: c.With}), append(turns, nil)
			for _, round := range c.Rounds {
				turns[i+1] = append(turns[i+1], figure.of(round.Other))
			}
		}
		for i := range bars {
			spread := SpreadOf(turns[i])
			bars[i].value, bars[i].least, bars[i].most = spread.Median, spread.Least, spread.Most
		}
		panel, err := barPanel(figure.title, bars)
		if err != nil {
			return nil, err
		}
		panels = append(panels, panel)
	}
	return panels, nil
}

// upstreamPanels is one panel for each saving.
func (r *Report) upstreamPanels() (panels []*plot.Plot, err error) {
	for _, s := range r.Savings {
		var bars []bar
		for _, way := range s.Ways {
			bars = append(bars, bar{name: way.Name, value: way.Calls})
		}
		panel, err := barPanel(fmt.Sprintf("Upstream calls for %d requests: %s", s.Requests, s.What), bars)
		if err != nil {
			return nil, err
		}
		panels = append(panels, panel)
	}
	return panels, nil
}

// barPanel draws bars that lie, the first one on top and in a colour of its own.
func barPanel(title string, bars []bar) (*plot.Plot, error) {
	p := newPlot(title)
	slices.Reverse(bars)
	var names, labels []string
	spread := struct {
		plotter.XYs
		plotter.XErrors
	}{make(plotter.XYs, len(bars)), make(plotter.XErrors, len(bars))}
	most, spreads := 0.0, false
	for i, b := range bars {
		chart, err := plotter.NewBarChart(plotter.Values{b.value}, vg.Points(12))
		if err != nil {
			return nil, err
		}
		chart.Horizontal, chart.XMin, chart.LineStyle.Width = true, float64(i), 0
		if chart.Color = colorOf(5); i == len(bars)-1 {
			chart.Color = colorOf(0)
		}
		p.Add(chart)
		names, labels = append(names, b.name), append(labels, short(b.value))
		spread.XYs[i] = plotter.XY{X: b.value, Y: float64(i)}
		if b.most > 0 {
			spread.XErrors[i].Low, spread.XErrors[i].High = b.value-b.least, b.most-b.value
			spreads = true
		}
		most = max(most, b.value, b.most)
	}
	if spreads {
		errorBars, err := plotter.NewXErrorBars(spread)
		if err != nil {
			return nil, err
		}
		p.Add(errorBars)
	}
	ends := make(plotter.XYs, len(bars)) // where the numbers stand, clear of the spread
	for i, b := range bars {
		ends[i] = plotter.XY{X: max(b.value, b.most), Y: float64(i)}
	}
	values, err := plotter.NewLabels(plotter.XYLabels{XYs: ends, Labels: labels})
	if err != nil {
		return nil, err
	}
	for i := range values.TextStyle {
		values.TextStyle[i].Font, values.TextStyle[i].YAlign = p.X.Tick.Label.Font, -.4
	}
	values.Offset.X = 2 * vg.Millimeter
	p.Add(values)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, most*1.12
	p.Y.Min, p.Y.Max = -.6, float64(len(bars))-.4
	return p, nil
}
