package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/bench/internal/report"
)

func TestTableOfTwoFolders(t *testing.T) {
	older, newer := t.TempDir(), t.TempDir()
	for folder, ratio := range map[string]float64{older: .5, newer: .8} {
		c := report.Comparison{With: "bare handler", Rounds: []report.Round{{Sara: report.Turn{Throughput: ratio}, Other: report.Turn{Throughput: 1}}}}
		c.Summarize()
		if err := (&report.Report{Comparisons: []report.Comparison{c}}).Save(filepath.Join(folder, "load.json")); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run([]string{"-before", older, newer}, &out); err != nil {
		t.Fatal(err)
	}
	const want = "| memory hits, of a bare handler's throughput | at least 0.75 | 0.50 | 0.80 | met |"
	text, err := os.ReadFile(filepath.Join(newer, "targets.md"))
	if err != nil || string(text) != out.String() || !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s(%v)", want, text, err)
	}
	if err := run([]string{t.TempDir()}, &out); err == nil {
		t.Error("a folder without reports is no error")
	}
}
