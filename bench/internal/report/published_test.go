package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	results = "../../results"
	readme  = "../../../README.md" // outside this module, so go test caches the result even if only the README changes
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// figures returns a median over the rounds of sara and of the other server.
func (c *Comparison) figures(figure func(Turn) float64) (sara, other float64) {
	var ours, theirs []float64
	for _, round := range c.Rounds {
		ours, theirs = append(ours, figure(round.Sara)), append(theirs, figure(round.Other))
	}
	return SpreadOf(ours).Median, SpreadOf(theirs).Median
}

// row returns the end of a row in the README's table: answers a second, in hundreds, and p99 in milliseconds.
func row(throughput, p99 float64) string {
	hundreds := int(throughput/100 + .5)
	return fmt.Sprintf("| %d,%d00 | %.0f ms |", hundreds/10, hundreds%10, p99)
}

// The figures in README.md and results/README.md are those of the measurements that they link to.
func TestPublishedFiguresAreTheMeasuredOnes(t *testing.T) {
	readme, summary := read(t, readme), read(t, filepath.Join(results, "README.md"))
	linked := regexp.MustCompile(`bench/results/(\d{4}-\d\d-\d\d[-a-z]*)/`).FindStringSubmatch(readme)
	if linked == nil {
		t.Fatal("README.md links to no results")
	}
	load, err := Load(filepath.Join(results, linked[1], "load.json"))
	if err != nil {
		t.Fatal(err)
	}
	agency, err := Load(filepath.Join(results, linked[1], "agency.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := func(file, text, figure string) {
		t.Helper()
		if !strings.Contains(text, figure) {
			t.Errorf("%s does not contain %q, which was measured", file, figure)
		}
	}
	spread := func(r Ratio) string { return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Median, r.Least, r.Most) }
	bare, nginx := load.Comparisons[0], load.Comparisons[1]
	for i, c := range []Comparison{bare, nginx} {
		sara, other := c.figures(func(t Turn) float64 { return t.Throughput })
		saraP99, otherP99 := c.figures(func(t Turn) float64 { return t.P99 })
		if i == 0 {
			want("README.md", readme, row(sara, saraP99))
		}
		want("README.md", readme, row(other, otherP99))
	}
	want("results/README.md", summary, spread(bare.Throughput))
	want("results/README.md", summary, strings.Replace(spread(nginx.Throughput), " (", " times (", 1))
	want("results/README.md", summary, fmt.Sprintf("%.2f times for the same processor time; %.2f of its p99", nginx.PerCPU.Median, nginx.P99.Median))
	ways := agency.Savings[0].Ways // sara, the URL-keyed cache, and the one with a call per period
	want("results/README.md", summary, fmt.Sprintf("%.3f; %.3f of one with one call per period", ways[0].Calls/ways[1].Calls,
		ways[0].Calls/ways[2].Calls))
}

// The tables of the targets match the reports next to them.
func TestTablesOfTargetsAreThoseOfTheReports(t *testing.T) {
	tables, err := filepath.Glob(filepath.Join(results, "*", "targets.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		reports, err := LoadAll(filepath.Dir(table))
		if err != nil {
			t.Fatal(err)
		}
		if want := string(AppendTargets(nil, reports.Targets())); read(t, table) != want {
			t.Errorf("%s is not\n%s", table, want)
		}
	}
}
