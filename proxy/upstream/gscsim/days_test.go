package gscsim_test

import (
	"fmt"
	"testing"
	"time"
)

// at starts the test world at a moment.
func at(t *testing.T, moment time.Time) *simulator {
	config := testConfig()
	config.Now = func() time.Time { return moment }
	return start(t, config)
}

// bounds queries a wide range of a small site by date, and returns its first and last day.
func (s *simulator) bounds(t *testing.T, state string) (first, last, incomplete string) {
	r := by("date")
	r.StartDate, r.EndDate, r.DataState = "2020-01-01", "2035-12-31", state
	answer, err := s.api.Searchanalytics.Query("sc-domain:restricted.example", r).Do()
	if err != nil {
		t.Fatal(err)
	}
	if answer.Metadata != nil {
		incomplete = answer.Metadata.FirstIncompleteDate
	}
	return answer.Rows[0].Keys[0], answer.Rows[len(answer.Rows)-1].Keys[0], incomplete
}

func TestDaysArePacific(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ utc, first, final, today string }{
		{"2026-08-16T06:59:59Z", "2025-04-14", "2026-08-13", "2026-08-15"}, // a second before midnight in summer
		{"2026-08-16T07:00:00Z", "2025-04-15", "2026-08-14", "2026-08-16"},
		{"2026-01-10T07:59:59Z", "2024-09-08", "2026-01-07", "2026-01-09"}, // and in winter
		{"2026-01-10T08:00:00Z", "2024-09-09", "2026-01-08", "2026-01-10"},
		{"2026-07-02T12:00:00Z", "2025-03-01", "2026-06-30", "2026-07-02"}, // sixteen months before June 30 is February 28
	} {
		moment, err := time.Parse(time.RFC3339, c.utc)
		if err != nil {
			t.Fatal(err)
		}
		s := at(t, moment)
		first, final, incomplete := s.bounds(t, "final")
		if first != c.first || final != c.final || incomplete != "" {
			t.Errorf("%s: final data from %s to %s, incomplete %q, want %s to %s", c.utc, first, final, incomplete, c.first, c.final)
		}
		if first, today, incomplete := s.bounds(t, "all"); first != c.first || today != c.today || incomplete == "" ||
			incomplete <= c.final || incomplete >= c.today {
			t.Errorf("%s: all data from %s to %s, incomplete from %s", c.utc, first, today, incomplete)
		}
	}
}

func TestRetentionCanBeWidened(t *testing.T) {
	config := testConfig()
	config.RetentionMonths = 40
	if first, _, _ := start(t, config).bounds(t, "final"); first != "2023-04-15" {
		t.Errorf("forty months start on %s", first)
	}
}

func TestMetadataOnlyWhereDataIsIncomplete(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	for _, c := range []struct {
		state, end string
		dimensions []string
		want       string
	}{
		{"all", "2026-08-14", []string{"date"}, ""},
		{"all", "2026-08-15", []string{"date"}, "2026-08-15"},
		{"all", "2026-08-16", nil, ""},
		{"all", "2026-08-16", []string{"query"}, ""},
		{"all", "2026-08-16", []string{"query", "date"}, "2026-08-15"},
		{"final", "2026-08-16", []string{"date"}, ""},
	} {
		r := by(c.dimensions...)
		r.StartDate, r.EndDate, r.DataState = "2026-08-10", c.end, c.state
		answer := s.ask(t, r)
		got := ""
		if answer.Metadata != nil {
			got = answer.Metadata.FirstIncompleteDate
		}
		if got != c.want {
			t.Errorf("%+v: first incomplete date %q", c, got)
		}
	}
}

func TestTodayFillsUp(t *testing.T) {
	today := func(hour int) float64 {
		r := by("date")
		r.StartDate, r.EndDate, r.DataState = "2026-08-16", "2026-08-16", "all"
		return add(at(t, time.Date(2026, 8, 16, 7+hour, 10, 0, 0, time.UTC)).ask(t, r).Rows).impressions
	}
	early, noonish, late := today(1), today(12), today(23)
	if early != 0 || noonish <= early || late <= noonish {
		t.Errorf("today has %v, %v, %v impressions as it passes", early, noonish, late)
	}
}

func TestHoursOfTheLastTenDays(t *testing.T) {
	s := start(t, testConfig())
	r := by("hour")
	r.StartDate, r.EndDate, r.DataState = "2026-07-01", "2026-08-20", "hourly_all"
	answer := s.ask(t, r)
	first, last := answer.Rows[0].Keys[0], answer.Rows[len(answer.Rows)-1].Keys[0]
	if first != "2026-08-07T00:00:00-07:00" || last != "2026-08-16T10:00:00-07:00" || answer.Metadata.FirstIncompleteHour != last {
		t.Errorf("hours from %s to %s, metadata %+v", first, last, answer.Metadata)
	}
	for i, row := range answer.Rows[1:] {
		if answer.Rows[i].Keys[0] >= row.Keys[0] {
			t.Fatalf("%s is after %s", answer.Rows[i].Keys[0], row.Keys[0])
		}
	}
	r.StartDate, r.EndDate = "2026-08-08", "2026-08-14"
	if got, want := add(s.ask(t, r).Rows), add(s.ask(t, &request{}).Rows); got != want {
		t.Errorf("the hours of a week sum to %v, its totals are %v", got, want)
	}
	r.Dimensions = []string{"device", "hour"}
	r.EndDate = "2026-08-08"
	rows := s.ask(t, r).Rows
	for i, row := range rows[1:] {
		if rows[i].Keys[1] > row.Keys[1] || rows[i].Keys[1] == row.Keys[1] && rows[i].Clicks < row.Clicks {
			t.Fatalf("%v is after %v", rows[i], row)
		}
	}
}

func TestDaysOfClockChangesHave23Or25Hours(t *testing.T) {
	for day, want := range map[time.Time]int{
		time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC):  23,
		time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC): 25,
	} {
		s := at(t, day.AddDate(0, 0, 5))
		r := by("hour")
		r.StartDate, r.EndDate, r.DataState = day.Format(time.DateOnly), day.Format(time.DateOnly), "hourly_all"
		rows := s.ask(t, r).Rows
		hours := map[string]bool{}
		for _, row := range rows {
			start, err := time.Parse(time.RFC3339, row.Keys[0])
			if err != nil {
				t.Fatal(err)
			}
			hours[fmt.Sprint(start.Unix())] = true
		}
		// Of 25 hours one has no data, because the cells of a day have 24.
		if len(hours) != len(rows) || len(rows) != min(want, 24) || rows[0].Keys[0][:10] != r.StartDate ||
			rows[len(rows)-1].Keys[0][:13] != r.StartDate+"T23" {
			t.Errorf("%s has %d hours, from %v to %v", r.StartDate, len(rows), rows[0].Keys, rows[len(rows)-1].Keys)
		}
	}
}

func TestYoungSitesStartOnTheirFirstDay(t *testing.T) {
	s := start(t, testConfig())
	r := by("date")
	r.StartDate, r.EndDate = "2026-08-08", "2026-08-12"
	answer, err := s.api.Searchanalytics.Query("sc-domain:young.example", r).Do()
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range answer.Rows {
		if (row.Impressions > 0) != (i >= 2) {
			t.Errorf("%s has %v impressions", row.Keys[0], row.Impressions)
		}
	}
}
