package report

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *Report {
	r := &Report{
		Command: "load -long", Commit: "abc", Began: time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC), Took: 90, Machine: thisMachine(),
		Measurements: []Measurement{
			{Scenario: "memory hits", Loop: Closed, Connections: 128, Requests: 10, Statuses: map[int]int64{200: 10}, Cache: map[string]int64{"hit": 10},
				Throughput: 5, Latency: Latency{P50: 1.25}, Request: Cost{CPU: map[string]float64{"sara": 40.5}}, Resident: map[string]int64{"sara": 64 << 20}},
			{Scenario: "denials", Loop: Open, Rate: 50, Statuses: map[int]int64{429: 8, 200: 2}},
		},
		Comparisons: []Comparison{{With: "the floor", Rounds: []Round{
			{Sara: Turn{Throughput: 70, PerCPU: 10, P99: 2}, Other: Turn{Throughput: 100, PerCPU: 20, P99: 1}},
			{Sara: Turn{Throughput: 90, PerCPU: 12, P99: 4}, Other: Turn{Throughput: 100, PerCPU: 20, P99: 1}},
			{Sara: Turn{Throughput: 80, PerCPU: 14, P99: 3}, Other: Turn{Throughput: 100, PerCPU: 20, P99: 1}},
		}}},
	}
	r.Comparisons[0].Summarize()
	r.Savings = []Saving{{What: "a day", Requests: 200, Properties: 5, Ways: []Way{{"sara", 20}, {"URL-keyed cache", 100}}}}
	r.Growth = []Growth{{
		Name: "rows", About: "ten of so many rows", Unit: "rows", Shape: "flat", Exponent: .25, Problem: "grows 3.2 times",
		Points: []Point{{X: 10, CPU: Spread{50, 40, 60}, By: map[string]float64{"sara": 45, "redis": 5}}, {X: 1000, CPU: Spread{160, 150, 170}}},
	}}
	return r
}

func TestRatiosAreMedians(t *testing.T) {
	c := sample().Comparisons[0]
	if want := (Ratio{.8, .7, .9}); c.Throughput != want {
		t.Errorf("throughput %+v, want %+v", c.Throughput, want)
	}
	if want := (Ratio{3, 2, 4}); c.P99 != want {
		t.Errorf("p99 %+v, want %+v", c.P99, want)
	}
	c.Rounds = c.Rounds[:2]
	if c.Summarize(); c.PerCPU.Median != .55 {
		t.Errorf("the median of two: %+v", c.PerCPU)
	}
	c.Rounds = nil
	if c.Summarize(); c.PerCPU != (Ratio{}) {
		t.Errorf("no rounds: %+v", c.PerCPU)
	}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	r := sample()
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("%+v\nis loaded as\n%+v (%v)", r, again, err)
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := sample().Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"load -long", "| memory hits | closed 128 | 10 | 5 | 1.25 |", "| denials | open 50/s | 2×200 8×429 |",
		"| memory hits | closed 128 | 40.5 |", "| 64 |", "**0.800** (0.700 to 0.900)",
		"| URL-keyed cache | 100 | 5.00 times |", "**grows 3.2 times**", "| 10 | 50.0 | 40.0 to 60.0 | 45.0 | 5.0 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func TestPublish(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made")
	if err := sample().Publish(folder, "run"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "run.md"))
	if err != nil || !strings.Contains(string(text), "load -long") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := Load(filepath.Join(folder, "run.json")); err != nil {
		t.Error(err)
	}
}

func TestThisMachine(t *testing.T) {
	if m := thisMachine(); m.Cores < 1 || m.CPU == "" || m.Kernel == "" || m.Go == "" {
		t.Errorf("%+v", m)
	}
	if commit := thisCommit(); commit == "" {
		t.Error("no commit")
	}
}
