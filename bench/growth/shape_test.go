package main

import (
	"math"
	"testing"

	"sara/bench/internal/report"
)

// growing returns a curve at 10, 100, 1,000 and 10,000, with noise of 10 %.
func growing(s shape, cost func(x float64) float64) *report.Growth {
	g := &report.Growth{Shape: string(s)}
	noise := 1.1
	for x := 10.0; x <= 1e4; x *= 10 {
		g.Points = append(g.Points, report.Point{X: x, CPU: report.Spread{Median: cost(x) * noise}})
		noise = 1 / noise
	}
	return g
}

func TestShapes(t *testing.T) {
	constant := func(float64) float64 { return 50 }
	depth := func(x float64) float64 { return 50 + 15*math.Log10(x) }
	scan := func(x float64) float64 { return 50 + x/20 }
	pairs := func(x float64) float64 { return 50 + x*x/1000 }
	step := func(x float64) float64 { return 50 + 500*x/(x+50) }
	falling := func(x float64) float64 { return 200 / x }
	for _, test := range []struct {
		name   string
		cost   func(float64) float64
		fits   []shape
		breaks []shape
	}{
		{"constant", constant, []shape{flat, logarithmic, linear, bounded}, nil},
		{"falling", falling, []shape{flat, logarithmic, linear, bounded}, nil},
		{"an index", depth, []shape{logarithmic, linear}, nil},
		{"a cache that overflows", step, []shape{bounded, linear}, []shape{flat}},
		{"a scan", scan, []shape{linear}, []shape{flat, logarithmic, bounded}},
		{"all pairs", pairs, nil, []shape{flat, logarithmic, linear, bounded}},
	} {
		for _, s := range test.fits {
			g := growing(s, test.cost)
			if check(g); g.Problem != "" {
				t.Errorf("%s is not %s: %s", test.name, s, g.Problem)
			}
		}
		for _, s := range test.breaks {
			g := growing(s, test.cost)
			if check(g); g.Problem == "" {
				t.Errorf("%s fits %s, with power %.2f", test.name, s, g.Exponent)
			}
		}
	}
}

func TestExponentOfAPower(t *testing.T) {
	points := []report.Point{{X: 1, CPU: report.Spread{Median: 3}}, {X: 4, CPU: report.Spread{Median: 24}}, {X: 16, CPU: report.Spread{Median: 192}}}
	if e := exponent(points); math.Abs(e-1.5) > 1e-9 {
		t.Errorf("3·x^1.5 has exponent %g", e)
	}
	if last := lastDecade(points); len(last) != 2 || last[0].X != 4 {
		t.Errorf("the last decade is %v", last)
	}
}
