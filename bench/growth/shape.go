package main

import (
	"fmt"
	"math"

	"sara/bench/internal/report"
)

// A shape is an upper bound for the growth of a cost: a curve that grows less also fits.
type shape string

const (
	flat        shape = "flat"
	logarithmic shape = "logarithmic"
	linear      shape = "linear"
	bounded     shape = "levelling off" // flat in the last decade
)

// Tolerances of the shapes, for a machine that other processes also use. The fit is over all points, so a single
// outlier changes little.
const (
	flatGrowth        = 1.6 // times over the whole range
	boundedGrowth     = 2   // times in the last decade
	logarithmicGrowth = 1.5 // times per decade
	linearExponent    = 1.2 // of the last decade, where the fixed cost of a request weighs least
)

// check fits a power of X to the points, and sets the problem of a curve that exceeds its shape.
func check(g *report.Growth) {
	g.Problem = ""
	g.Exponent = exponent(g.Points)
	decades := math.Log10(g.Points[len(g.Points)-1].X / g.Points[0].X)
	switch shape(g.Shape) {
	case flat:
		if times := math.Pow(10, g.Exponent*decades); times > flatGrowth {
			g.Problem = fmt.Sprintf("it grows %.1f times over %.1f decades, more than %.1f", times, decades, flatGrowth)
		}
	case logarithmic:
		if times := math.Pow(10, g.Exponent); times > logarithmicGrowth {
			g.Problem = fmt.Sprintf("it grows %.1f times in a decade, more than %.1f", times, logarithmicGrowth)
		}
	case bounded:
		if times := math.Pow(10, exponent(lastDecade(g.Points))); times > boundedGrowth {
			g.Problem = fmt.Sprintf("it grows %.1f times in the last decade, more than %.1f", times, float64(boundedGrowth))
		}
	case linear:
		if last := exponent(lastDecade(g.Points)); last > linearExponent {
			g.Problem = fmt.Sprintf("it grows with power %.2f in the last decade, more than %.1f", last, linearExponent)
		}
	}
}

// lastDecade returns the points of the last decade of X, at least two.
func lastDecade(points []report.Point) []report.Point {
	from := len(points) - 2
	for from > 0 && points[from-1].X >= points[len(points)-1].X/10 {
		from--
	}
	return points[from:]
}

// exponent returns the least-squares slope of log(cost) over log(X).
func exponent(points []report.Point) float64 {
	var x, y, xx, xy float64
	for _, p := range points {
		lx, ly := math.Log(p.X), math.Log(p.CPU.Median)
		x, y, xx, xy = x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	n := float64(len(points))
	return (n*xy - x*y) / (n*xx - x*x)
}
