package report

import (
	"strings"
	"testing"
)

// hit returns a closed loop over 128 connections of a run.
func hit(run int, scenario string, micros float64) Measurement {
	return Measurement{Run: run, Scenario: scenario, Loop: Closed, Connections: 128, Request: Cost{CPU: map[string]float64{"sara": micros}}}
}

func TestTargetsAreMediansOfRuns(t *testing.T) {
	var r Reports
	for run, micros := range []float64{40, 50, 60} {
		r.Load.Measurements = append(r.Load.Measurements, hit(run, "memory", micros), hit(run, "stored", 200),
			Measurement{Run: run, Scenario: "stored", Loop: Closed, Connections: 16, Request: Cost{CPU: map[string]float64{"sara": 1e6}}})
	}
	r.Load.Footprints = []Footprint{{State: "idle", Resident: 20}, {State: FillState, Peak: 60, Body: 10}}
	text := string(AppendTargets(nil, r.Targets()))
	for _, want := range []string{
		"| a stored answer that is not ready, in memory hits | at most 5 | 10 | 4.00 (3.33–5.00) | met |",
		"| a hybrid one, in memory hits | at most 10 | 22 | not measured |  |",
		"| peak memory of a fill, in upstream bodies | at most 3 |  | 4.00 | missed |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// With several runs, the ratio is the median of their medians, with their range.
func TestRatiosOfSeveralRuns(t *testing.T) {
	c := Comparison{}
	for run, ratios := range [][]float64{{.1, .5, .9}, {.6, .6, .6}, {.4, .8, .4}} {
		for _, ratio := range ratios {
			c.Rounds = append(c.Rounds, Round{Run: run, Sara: Turn{Throughput: ratio}, Other: Turn{Throughput: 1}})
		}
	}
	c.Summarize()
	if want := (Ratio{.5, .4, .6}); c.Throughput != want {
		t.Errorf("%+v, want %+v", c.Throughput, want)
	}
}
