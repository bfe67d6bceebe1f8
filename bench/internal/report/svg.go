package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Plots draws what the report has into a folder, which has to be there, and returns the names of the files:
// NAME-latency.svg, NAME-throughput.svg, NAME-upstream.svg, NAME-curves.svg. They have a white ground, so that they can be
// read on a dark page, too.
func (r *Report) Plots(folder, name string) (names []string, err error) {
	for _, figure := range []struct {
		name    string
		panels  func() ([]*plot.Plot, error)
		columns int
		height  vg.Length // of a panel
	}{
		{"latency", r.latencyPanels, 1, 11 * vg.Centimeter},
		{"throughput", r.throughputPanels, 1, 4.5 * vg.Centimeter},
		{"upstream", r.upstreamPanels, 1, 4.5 * vg.Centimeter},
		{"curves", r.growthPanels, 3, 6 * vg.Centimeter},
	} {
		panels, err := figure.panels()
		if err != nil {
			return nil, fmt.Errorf("draw the %s: %w", figure.name, err)
		}
		if len(panels) == 0 {
			continue
		}
		file := name + "-" + figure.name + ".svg"
		if err := saveSVG(filepath.Join(folder, file), panels, figure.columns, figure.height); err != nil {
			return nil, err
		}
		names = append(names, file)
	}
	return names, nil
}

// The library names, at each text, only the font that it measures with; these have the same widths, and are named once.
const (
	eachText = "font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;"
	families = `<svg font-family="Liberation Sans,Arial,Helvetica,sans-serif" `
)

// saveSVG draws panels into one file, so many side by side.
func saveSVG(path string, panels []*plot.Plot, columns int, height vg.Length) error {
	const width = 20 * vg.Centimeter
	columns = min(columns, len(panels))
	rows := (len(panels) + columns - 1) / columns
	const gap = 4 * vg.Millimeter
	svg := vgsvg.New(width, height*vg.Length(rows))
	canvas := draw.New(svg)
	canvas.FillPolygon(color.White, []vg.Point{canvas.Min, {X: canvas.Max.X, Y: canvas.Min.Y}, canvas.Max, {X: canvas.Min.X, Y: canvas.Max.Y}})
	tiles := draw.Tiles{Cols: columns, Rows: rows, PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: gap}
	for i, panel := range panels {
		panel.Draw(tiles.At(canvas, i%columns, i/columns))
	}
	var out bytes.Buffer
	if _, err := svg.WriteTo(&out); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	text := bytes.ReplaceAll(out.Bytes(), []byte(eachText), nil)
	return os.WriteFile(path, bytes.Replace(text, []byte("<svg "), []byte(families), 1), 0o644)
}

// newPlot is an empty plot in our type.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = 2 * vg.Millimeter
	set := func(s *text.Style, size font.Length) {
		s.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	}
	set(&p.Title.TextStyle, 10)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		set(&axis.Label.TextStyle, 9)
		set(&axis.Tick.Label, 8)
	}
	set(&p.Legend.TextStyle, 8)
	p.Legend.Padding = vg.Millimeter
	return p
}

// colorOf returns colours that are told apart by those who see few, too, and repeat after eight.
func colorOf(i int) color.Color {
	return [...]color.RGBA{
		{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
		{230, 159, 0, 255}, {86, 180, 233, 255}, {90, 90, 90, 255}, {150, 110, 60, 255},
	}[i%8]
}

func dashesOf(i int) []vg.Length {
	if i < 8 {
		return nil
	}
	return []vg.Length{4, 2}
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	light := color.Gray{225}
	g.Vertical.Color, g.Horizontal.Color = light, light
	return g
}

// logTicks are 1, 2 and 5 of each decade, or only 1 if there are many.
func logTicks(least, most float64) (ticks plot.ConstantTicks) {
	steps := []float64{1, 2, 5}
	if most/least > 1e3 {
		steps = steps[:1]
	}
	for decade := math.Floor(math.Log10(least)); decade <= math.Ceil(math.Log10(most)); decade++ {
		for _, step := range steps {
			if at := step * math.Pow(10, decade); at >= least*.999 && at <= most*1.001 {
				ticks = append(ticks, plot.Tick{Value: at, Label: short(at)})
			}
		}
	}
	return ticks
}

// short writes a number in few characters.
func short(n float64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(n/1e6, 'g', 3, 64) + "M"
	case n >= 1e4 || n >= 1e3 && math.Mod(n, 1e3) == 0:
		return strconv.FormatFloat(n/1e3, 'g', 3, 64) + "k"
	case n >= 1e3:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// logAxis makes an axis logarithmic from just below the least value, which is above zero, to just above the most.
func logAxis(axis *plot.Axis, least, most float64) {
	axis.Min, axis.Max = least/1.1, most*1.1
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, logTicks(axis.Min, axis.Max)
}

var errNoFigures = errors.New("a figure is not above zero")
