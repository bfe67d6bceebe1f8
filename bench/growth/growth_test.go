package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sara/bench/internal/report"
	"sara/cmd/sara/saratest"
)

// The first steps of some ladders, quickly: seeded data can be requested, and every point has all figures.
func TestFirstSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	o, err := parse([]string{"-curves", "cuts,months,properties,list,active"})
	if err != nil {
		t.Fatal(err)
	}
	o.binary = saratest.Binary(t)
	o.warmUp, o.loop, o.rounds, o.steps = time.Millisecond, 20*time.Millisecond, 1, 2
	r := &report.Report{}
	if err := run(t.Context(), o, r, io.Discard); err != nil {
		t.Fatal(err)
	}
	if len(r.Growth) != 5 {
		t.Fatalf("%d curves", len(r.Growth))
	}
	for _, g := range r.Growth {
		if len(g.Points) != 2 || g.Points[0].X >= g.Points[1].X || g.Unit == "" || g.About == "" {
			t.Errorf("%+v", g)
		}
		for _, p := range g.Points {
			if p.CPU.Median <= 0 || p.P50 <= 0 || p.P99 < p.P50 {
				t.Errorf("%s: %+v", g.Name, p)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parse(nil)
	if err != nil || len(o.ladders) != len(ladders()) || o.rounds != 3 {
		t.Errorf("the default is %+v (%v)", o, err)
	}
	o, err = parse([]string{"-curves", "months,rows", "-long"})
	if err != nil || len(o.ladders) != 2 || len(o.ladders[0].curves) != 1 || o.ladders[0].curves[0].name != "rows" || o.rounds != 9 {
		t.Errorf("%+v (%v)", o, err)
	}
	if _, err := parse([]string{"-curves", "rows,nonsense"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("an unknown curve: %v", err)
	}
}

func TestCurvesThatExceedTheirShapesAreAnError(t *testing.T) {
	good, bad := report.Growth{Name: "rows", Shape: "flat"}, report.Growth{Name: "months", Shape: "linear", Problem: "it grows with power 2"}
	if err := misshapen([]report.Growth{good}); err != nil {
		t.Error(err)
	}
	if err := misshapen([]report.Growth{good, bad}); err == nil || !strings.Contains(err.Error(), "months is not linear: it grows with power 2") {
		t.Errorf("%v", err)
	}
}
