package check

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sara/policy"
)

// plansSection returns the part of the README about plans.
func plansSection(t *testing.T) string {
	t.Helper()
	_, section, ok := strings.Cut(readFile(t, "../README.md"), "\n## Plans\n")
	if !ok {
		t.Fatal("the README has no section about plans")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

func TestREADMEShowsTheBuiltInPlans(t *testing.T) {
	section := plansSection(t)
	var want []map[string]any
	for _, name := range []string{"own", "pro", "agency"} {
		text, err := yaml.Marshal(policy.DefaultPlans()[name])
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := yaml.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		want = append(want, fields)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| (\\S+) \\| (\\S+) \\| (\\S+) \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) != len(want[0]) {
		t.Errorf("the table has %d fields, and a plan %d", len(rows), len(want[0]))
	}
	for _, row := range rows {
		for i, fields := range want {
			if got, want := strings.ReplaceAll(row[2+i], ",", ""), fmt.Sprint(fields[row[1]]); got != want {
				t.Errorf("%s: the table has %s, and the program %s", row[1], got, want)
			}
		}
	}
}

func TestPlansFileOfTheREADMEIsValid(t *testing.T) {
	var sample strings.Builder
	for line := range strings.Lines(plansSection(t)) {
		if text, ok := strings.CutPrefix(line, "    "); ok {
			sample.WriteString(text)
		}
	}
	plans, err := policy.ReadPlans(strings.NewReader(sample.String()))
	if err != nil || plans["pro"].RequestsPerDay != 2000 || plans["pro"].Keys != 3 || plans["team"].Keys != 20 {
		t.Errorf("%+v, %v", plans, err)
	}
}
