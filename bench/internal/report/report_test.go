package report

import (
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *Report {
	r := &Report{
		Command: "load -long", Commit: "abc", Began: time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC), Took: 90, Machine: ThisMachine(),
		Measurements: []Measurement{
			{Scenario: "memory hits", Loop: Closed, Connections: 128, Requests: 10, Statuses: map[int]int64{200: 10}, Cache: map[string]int64{"hit": 10},
				Throughput: 5, Latency: Latency{P50: 1.25}, Request: Cost{CPU: map[string]float64{"sara": 40.5}}, Resident: map[string]int64{"sara": 64 << 20}},
			{Scenario: "denials", Loop: Open, Rate: 50, Statuses: map[int]int64{429: 8, 200: 2}},
		},
		Comparisons: []Comparison{{With: "the floor", Rounds: []Round{
			{Turn{Throughput: 70, PerCPU: 10, P99: 2}, Turn{Throughput: 100, PerCPU: 20, P99: 1}},
			{Turn{Throughput: 90, PerCPU: 12, P99: 4}, Turn{Throughput: 100, PerCPU: 20, P99: 1}},
			{Turn{Throughput: 80, PerCPU: 14, P99: 3}, Turn{Throughput: 100, PerCPU: 20, P99: 1}},
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

func TestRatiosAreMediansWithSpread(t *testing.T) {
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

func TestJSONKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	r := sample()
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("%+v\nis read as\n%+v (%v)", r, again, err)
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

// Every kind of result has its picture: well-formed, with its names in it, and small enough to be committed.
func TestPlots(t *testing.T) {
	r := sample()
	open := &r.Measurements[1]
	open.Requests = 100_000
	for i := range CurvePercentiles() {
		open.Curve = append(open.Curve, float64(1+i))
	}
	folder := t.TempDir()
	names, err := r.Plots(folder, "run")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"run-latency.svg": {"denials, 50/s", "99.9"}, "run-throughput.svg": {"sara", "the floor", ">80<", ">100<"},
		"run-upstream.svg": {"URL-keyed cache", ">100<"}, "run-curves.svg": {"rows: NOT flat"},
	}
	if len(names) != len(want) {
		t.Errorf("%q are drawn", names)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(text, new(struct{})); err != nil || len(text) > 64<<10 {
			t.Errorf("%s: %v, %d bytes", name, err, len(text))
		}
		for _, part := range want[name] {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q", name, part)
			}
		}
	}
	if names, err := new(Report).Plots(folder, "run"); err != nil || len(names) != 0 {
		t.Errorf("nothing is drawn as %q (%v)", names, err)
	}
}

func TestPublishedMarkdownShowsThePictures(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made")
	if err := sample().Publish(folder, "run"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "run.md"))
	if err != nil || !strings.Contains(string(text), "](run-throughput.svg)") || !strings.Contains(string(text), "load -long") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := Load(filepath.Join(folder, "run.json")); err != nil {
		t.Error(err)
	}
}

func TestACurveOfNothingIsNotDrawn(t *testing.T) {
	r := sample()
	r.Growth[0].Points[0].CPU.Least = 0
	if _, err := r.Plots(t.TempDir(), "run"); !errors.Is(err, errNoFigures) {
		t.Errorf("a logarithm of zero: %v", err)
	}
}

func TestThisMachine(t *testing.T) {
	if m := ThisMachine(); m.Cores < 1 || m.CPU == "" || m.Kernel == "" || m.Go == "" {
		t.Errorf("%+v", m)
	}
	if commit := ThisCommit(); commit == "" {
		t.Error("no commit")
	}
}

func TestNumbersOfPicturesAreShort(t *testing.T) {
	for n, want := range map[float64]string{.05: "0.05", 62.25: "62.2", 1000: "1k", 1024: "1024", 25_000: "25k", 15_495: "15.5k", 2e6: "2M"} {
		if got := short(n); got != want {
			t.Errorf("%g is written %s, want %s", n, got, want)
		}
	}
}
