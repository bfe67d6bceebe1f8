package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// growthPanels are the growth curves, each with its spread and with its fit.
func (r *Report) growthPanels() (panels []*plot.Plot, err error) {
	for _, g := range r.Growth {
		panel, err := g.panel()
		if err != nil {
			return nil, err
		}
		panels = append(panels, panel)
	}
	return panels, nil
}

func (g *Growth) panel() (*plot.Plot, error) {
	title := g.Name + ": " + g.Shape
	if g.Problem != "" {
		title = g.Name + ": NOT " + g.Shape
	}
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = g.Unit, "µs CPU a request"
	points := struct {
		plotter.XYs
		plotter.YErrors
	}{make(plotter.XYs, len(g.Points)), make(plotter.YErrors, len(g.Points))}
	least, most := math.Inf(1), 0.0
	for i, point := range g.Points {
		if point.X <= 0 || point.CPU.Least <= 0 {
			return nil, errNoFigures // of a logarithmic axis
		}
		points.XYs[i] = plotter.XY{X: point.X, Y: point.CPU.Median}
		points.YErrors[i].Low, points.YErrors[i].High = point.CPU.Median-point.CPU.Least, point.CPU.Most-point.CPU.Median
		least, most = min(least, point.CPU.Least), max(most, point.CPU.Most)
	}
	line, scatter, err := plotter.NewLinePoints(points.XYs)
	if err != nil {
		return nil, err
	}
	errorBars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = colorOf(0), vg.Points(1.5)
	scatter.Color, scatter.Shape, scatter.Radius = colorOf(0), draw.CircleGlyph{}, vg.Points(2)
	p.Add(grid(), errorBars, line, scatter)
	logAxis(&p.X, points.XYs[0].X, points.XYs[len(points.XYs)-1].X)
	var steps plot.ConstantTicks
	for _, point := range g.Points {
		steps = append(steps, plot.Tick{Value: point.X, Label: short(point.X)})
	}
	p.X.Tick.Marker = steps
	// A flat curve should look flat: noise does not fill the panel.
	logAxis(&p.Y, min(least, most/10), max(most, least*10))
	return p, nil
}
