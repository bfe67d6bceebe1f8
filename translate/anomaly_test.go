package translate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestKnownAnomalies(t *testing.T) {
	t.Parallel()
	known := KnownAnomalies()
	if len(known) == 0 || !slices.IsSortedFunc(known, func(a, b Anomaly) int { return int(a.Start) - int(b.Start) }) {
		t.Errorf("the built-in anomalies are %+v", known)
	}
	logging := known[0]
	if logging.ID != "gsc-impressions-logging-2025" || logging.Start != day("2025-05-13") || *logging.End != day("2026-04-27") ||
		logging.Kind() != "window" || slices.Contains(logging.Metrics, "clicks") {
		t.Errorf("the first anomaly is %+v", logging)
	}
}

// JSON as it comes out of the API reads like YAML.
func TestReadAnomalies(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`[{"id":"b","start_date":"2026-02-01","end_date":null,"kind":"step","metrics":["clicks","ctr"],"effect":"More clicks.","source_url":"https://example.com/b"},
		  {"id":"a","start_date":"2026-01-01","end_date":"2026-01-02","metrics":["position"],"effect":"Wrong.","source_url":"http://example.com"},
		  {"id":"image","start_date":"2026-01-01","metrics":["clicks"],"search_types":["image"],"effect":"No images.","source_url":"http://example.com"}]`,
		"# with a comment\n- id: b\n  start_date: 2026-02-01\n  kind: step\n  metrics: [clicks, ctr]\n" +
			"  effect: More clicks.\n  source_url: https://example.com/b\n" +
			"- {id: a, start_date: 2026-01-01, end_date: 2026-01-02, kind: window, metrics: [position], " +
			"search_types: [web, image], effect: Wrong., source_url: http://example.com}\n",
	} {
		list, err := ReadAnomalies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		second := day("2026-01-02")
		want := Anomalies{{ID: "a", Start: second - 1, End: &second, Metrics: []string{"position"}, Effect: "Wrong.", Source: "http://example.com"},
			{ID: "b", Start: day("2026-02-01"), Step: true, Metrics: []string{"clicks", "ctr"}, Effect: "More clicks.", Source: "https://example.com/b"}}
		if got, expected := jsonOf(list), jsonOf(want); got != expected {
			t.Errorf("%s\nis read as %s\nwant %s", text, got, expected)
		}
	}
	longest := "- {id: " + strings.Repeat("a", 80) + ", start_date: 2026-01-01, metrics: [clicks], effect: " + strings.Repeat("é", 500) +
		", source_url: https://example.com}\n"
	if _, err := ReadAnomalies(strings.NewReader(longest)); err != nil {
		t.Error(err)
	}
	for _, empty := range []string{"", "[]", "# nothing\n"} {
		if list, err := ReadAnomalies(strings.NewReader(empty)); err != nil || list == nil || len(list) != 0 {
			t.Errorf("%q is read as %v, %v", empty, list, err)
		}
	}
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestReadAnomaliesRefuses(t *testing.T) {
	t.Parallel()
	entry := func(replace, by string) string {
		const good = "- {id: a, start_date: 2026-01-01, end_date: 2026-01-02, kind: window, metrics: [clicks], " +
			"effect: Wrong., source_url: https://example.com}\n"
		if !strings.Contains(good, replace) {
			t.Fatalf("no %q to replace", replace)
		}
		return strings.Replace(good, replace, by, 1)
	}
	for _, c := range []struct{ text, want string }{
		{entry("id: a", "id: A B"), `anomaly 1: id "A B" is not 1 to 80 lower-case letters, digits and hyphens`},
		{entry("id: a, ", ""), `anomaly 1: id "" is not 1 to 80`},
		{entry("id: a", "id: "+strings.Repeat("a", 81)), `a" is not 1 to 80`},
		{entry("", "") + entry("", ""), `anomaly 2: id "a" is given twice`},
		{entry("start_date: 2026-01-01, ", ""), "anomaly 1: start_date: "},
		{entry("2026-01-02", "2026-02-30"), "anomaly 1: end_date: "},
		{entry("2026-01-02", "2025-12-31"), "anomaly 1: end_date 2025-12-31 is before start_date 2026-01-01"},
		{entry("window", "hole"), `anomaly 1: kind "hole" is neither window nor step`},
		{entry("[clicks]", "[]"), "anomaly 1: metrics is empty: name some of clicks, impressions, ctr, position"},
		{entry("[clicks]", "[clocks]"), `anomaly 1: metric "clocks" is not one of clicks, impressions, ctr, position`},
		{entry("Wrong.", "''"), "anomaly 1: effect has 0 characters: 1 to 500 are allowed"},
		{entry("Wrong.", strings.Repeat("x", 501)), "anomaly 1: effect has 501 characters"},
		{entry("https://example.com", "example.com"), `anomaly 1: source_url "example.com" is not an http or https URL`},
		{entry("https://", "ftp://"), `anomaly 1: source_url "ftp://example.com" is not an http or https URL`},
		{entry("https://", "https:///"), `anomaly 1: source_url "https:///example.com" is not an http or https URL`},
		{entry("effect", "affect"), "read the anomalies: line 1: field affect not found; the file is a list of id, start_date"},
		{"anomalies: []", "read the anomalies: line 1: cannot unmarshal !!map; the file is a list of id"},
		{"- {", "read the anomalies: yaml: "},
		{"[]\n---\n[]", "read the anomalies: the file has more than one YAML document"},
		{strings.Repeat(entry("", ""), 101), "read the anomalies: there are 101: at most 100 are allowed"},
	} {
		if _, err := ReadAnomalies(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.120s\nis refused with %v\nwant %s", c.text, err, c.want)
		}
	}
}

// A window concerns a period of which, or of the one before it, it has a day; a step one that begins before it and goes on after.
func TestAnomalyNotes(t *testing.T) {
	t.Parallel()
	file := "- {id: window, start_date: 2026-03-10, end_date: 2026-03-12, metrics: [clicks], effect: Wrong., source_url: https://example.com}\n" +
		"- {id: open, start_date: 2026-06-01, metrics: [clicks], effect: Wrong., source_url: https://example.com}\n" +
		"- {id: step, start_date: 2026-03-20, end_date: 2026-03-20, kind: step, metrics: [clicks], effect: Other., source_url: https://example.com}\n" +
		"- {id: since, start_date: 2026-03-20, kind: step, metrics: [clicks], effect: Other., source_url: https://example.com}\n" +
		"- {id: roll-out, start_date: 2026-04-10, end_date: 2026-04-12, kind: step, metrics: [clicks], effect: Other., source_url: https://example.com}\n"
	list, err := ReadAnomalies(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	const window, steps, rollOut = "window: Wrong. (2026-03-10 to 2026-03-12)",
		"step: Other. (2026-03-20 to 2026-03-20)|since: Other. (since 2026-03-20)", "roll-out: Other. (2026-04-10 to 2026-04-12)"
	for _, c := range []struct{ start, end, want string }{
		{"2026-03-08", "2026-03-09", ""},
		{"2026-03-10", "2026-03-10", window},
		{"2026-03-01", "2026-03-10", window},
		{"2026-03-12", "2026-03-13", window},
		{"2026-03-13", "2026-03-13", window}, // the day before it is the window's
		{"2026-03-14", "2026-03-14", ""},
		{"2026-03-19", "2026-03-19", ""},
		{"2026-03-20", "2026-03-20", steps}, // the day before it is on the other side
		{"2026-03-21", "2026-03-21", ""},
		{"2026-03-19", "2026-03-20", steps},
		{"2026-04-12", "2026-04-12", rollOut},
		{"2026-04-13", "2026-04-13", ""},
		{"2026-04-09", "2026-04-09", ""},
		{"2026-03-01", "2026-04-30", window + "|" + steps + "|" + rollOut},
		{"2026-06-01", "2026-06-01", "open: Wrong. (since 2026-06-01)"},
		{"2027-06-01", "2027-06-01", "open: Wrong. (since 2026-06-01)"},
	} {
		p := &Params{Period: Period{DateRange: DateRange{Start: day(c.start), End: day(c.end)}}}
		if got := strings.Join(list.Notes(p), "|"); got != c.want {
			t.Errorf("%s to %s has the notes %q, want %q", c.start, c.end, got, c.want)
		}
	}
}

// TestAnomalyNotesModel compares with a slow reference that looks at every day.
func TestAnomalyNotesModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		end := Date(100 + random.IntN(12))
		a := Anomaly{ID: "a", Start: end - Date(random.IntN(3)), End: &end, Step: random.IntN(2) == 0}
		start := Date(90 + random.IntN(30))
		p := Period{DateRange: DateRange{Start: start, End: start + Date(random.IntN(10))}}
		want := false
		for first := a.Start; first <= end; first++ { // the day on which the step may have come
			before, after := false, false
			for d := p.Start - Date(p.Days()); d <= p.End; d++ {
				want = want || !a.Step && d >= a.Start && d <= end
				before, after = before || d < first, after || d >= first
			}
			want = want || a.Step && before && after
		}
		if got := len(Anomalies{a}.Notes(&Params{Period: p})) == 1; got != want {
			t.Fatalf("%+v until %s concerns %s to %s: %t, want %t", a, end, p.Start, p.End, got, want)
		}
	}
}

func TestAnomaliesWithin(t *testing.T) {
	t.Parallel()
	second, fourth := Date(102), Date(104)
	list := Anomalies{{ID: "a", Start: 101, End: &second}, {ID: "b", Start: 104, End: &fourth, Step: true}, {ID: "c", Start: 105}}
	bound := func(n int) *Date {
		if n == 0 {
			return nil
		}
		d := Date(100 + n)
		return &d
	}
	for _, c := range []struct {
		from, to int
		want     string
	}{{0, 0, "abc"}, {2, 0, "abc"}, {3, 0, "bc"}, {4, 4, "b"}, {5, 0, "c"}, {9, 9, "c"}, {0, 1, "a"}, {0, 3, "a"}, {3, 3, ""}, {-9, -1, ""}} {
		got := ""
		for _, a := range list.Within(bound(c.from), bound(c.to)) {
			got += a.ID
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", fmt.Sprint(c.from, " to ", c.to), got, c.want)
		}
	}
}
