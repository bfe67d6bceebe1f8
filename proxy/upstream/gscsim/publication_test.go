package gscsim_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	searchconsole "google.golang.org/api/searchconsole/v1"

	"sara/proxy/upstream/gscsim"
)

const publishedSite = "sc-domain:published.example"

// publishing starts a simulator of one small site at the time of now.
func publishing(t *testing.T, now func() time.Time, site gscsim.Site) *simulator {
	t.Helper()
	site.URL, site.Queries, site.Pages = publishedSite, 20, 10
	config := testConfig()
	config.Now, config.TokenNow = now, time.Now
	config.Users[0].Sites = []gscsim.Site{site}
	return start(t, config)
}

// days returns the days of a range as an answer grouped by date shows them: a letter per day, "x" for figures, "0" for a
// row of zeros and "." for no row. It also checks that the totals and the devices of the range count only the days with figures.
func (s *simulator) days(t *testing.T, from, to string) string {
	t.Helper()
	ask := func(r *request) []*searchconsole.ApiDataRow {
		r.StartDate, r.EndDate = from, to
		answer, err := s.api.Searchanalytics.Query(publishedSite, r).Do()
		if err != nil {
			t.Fatal(err)
		}
		return answer.Rows
	}
	rows := ask(by("date"))
	shown := map[string]string{}
	for _, row := range rows {
		shown[row.Keys[0]] = "0"
		if row.Impressions > 0 {
			shown[row.Keys[0]] = "x"
		}
	}
	if sum := add(rows); add(ask(&request{})) != sum || add(ask(by("device"))) != sum || add(ask(by("date", "device"))) != sum {
		t.Errorf("%s to %s: the days add up to %v, the totals and devices do not", from, to, sum)
	}
	first, err := time.Parse(time.DateOnly, from)
	if err != nil {
		t.Fatal(err)
	}
	var line strings.Builder
	for d := first; d.Format(time.DateOnly) <= to; d = d.AddDate(0, 0, 1) {
		if text, ok := shown[d.Format(time.DateOnly)]; ok {
			line.WriteString(text)
		} else {
			line.WriteByte('.')
		}
	}
	return line.String()
}

// The week of noon: the last day is yesterday, and the usual last published day is the day before.
const weekStart, weekEnd = "2026-08-09", "2026-08-15"

func TestPublicationOfTheLastDays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		publication gscsim.Publication
		want        string
	}{
		"usual":            {gscsim.Publication{}, "xxxxxx."},
		"early":            {gscsim.Publication{Lag: 1}, "xxxxxxx"},
		"late":             {gscsim.Publication{Lag: 4}, "xxxx..."},
		"late, with zeros": {gscsim.Publication{Lag: 4, EmptyDays: gscsim.EmptyUnpublished}, "xxxx00."},
		"early, of zeros":  {gscsim.Publication{Lag: 1, EmptyDays: gscsim.EmptyUnpublished}, "xxxxxxx"},
		"late, omitted":    {gscsim.Publication{Lag: 4, EmptyDays: gscsim.EmptyOmitted}, "xxxx..."},
	} {
		t.Run(name, func(t *testing.T) {
			s := publishing(t, noon, gscsim.Site{Publication: c.publication})
			if got := s.days(t, weekStart, weekEnd); got != c.want {
				t.Errorf("the week is %s, want %s", got, c.want)
			}
		})
	}
}

func TestDaysWithoutTraffic(t *testing.T) {
	t.Parallel()
	quiet := gscsim.Site{QuietDays: []string{"2026-08-11", "2026-08-12"}}
	for name, c := range map[string]struct {
		site gscsim.Site
		want string
	}{
		"zeros":           {quiet, "xx00xx."},
		"omitted":         {gscsim.Site{QuietDays: quiet.QuietDays, Publication: gscsim.Publication{EmptyDays: gscsim.EmptyOmitted}}, "xx..xx."},
		"the last is so":  {gscsim.Site{QuietDays: []string{"2026-08-14"}}, "xxxxx0."},
		"young":           {gscsim.Site{FirstDay: "2026-08-12"}, "000xxx."},
		"young, omitting": {gscsim.Site{FirstDay: "2026-08-12", Publication: gscsim.Publication{EmptyDays: gscsim.EmptyOmitted}}, "...xxx."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := publishing(t, noon, c.site).days(t, weekStart, weekEnd); got != c.want {
				t.Errorf("the week is %s, want %s", got, c.want)
			}
		})
	}
}

func TestSparseSitesHaveFiguresOnSomeDays(t *testing.T) {
	t.Parallel()
	s := publishing(t, noon, gscsim.Site{OneDayIn: 5})
	year := s.days(t, "2025-08-15", "2026-08-14")
	if n := strings.Count(year, "x"); n < 50 || n > 100 || strings.Count(year, "0") != 365-n {
		t.Errorf("of a year, %d days have figures: %s", n, year)
	}
}

func TestLostDaysHaveNoRows(t *testing.T) {
	t.Parallel()
	s := publishing(t, noon, gscsim.Site{Publication: gscsim.Publication{LostDays: 3}})
	if got := s.days(t, "2025-04-13", "2025-04-20"); got != ".....xxx" {
		t.Errorf("the start of the live window, 2025-04-15, is %s", got)
	}
}

// An irregular lag differs from day to day within its bounds, is the same on every server, and never unpublishes a day.
func TestAnIrregularLagNeverTakesADayBack(t *testing.T) {
	t.Parallel()
	now := noon()
	s := publishing(t, func() time.Time { return now }, gscsim.Site{Publication: gscsim.Publication{Lag: 2, LagSpread: 3}})
	lags := map[int]int{}
	for last := ""; now.Before(noon().AddDate(0, 0, 40)); now = now.AddDate(0, 0, 1) {
		answered := strings.TrimRight(s.days(t, "2026-08-01", now.Format(time.DateOnly)), ".")
		if !strings.HasPrefix(answered, last) {
			t.Errorf("on %s the days are %s, the day before they were %s", now, answered, last)
		}
		lags[now.Day()+31*int(now.Month()-8)-len(answered)]++
		last = answered
	}
	if len(lags) < 3 || lags[0] > 0 || lags[1] > 0 || lags[6] > 0 {
		t.Errorf("the days by their lag: %v", lags)
	}
}

func TestADayIsPublishedDuringATest(t *testing.T) {
	t.Parallel()
	s := publishing(t, noon, gscsim.Site{Publication: gscsim.Publication{Lag: 3}})
	for _, c := range []struct{ last, want string }{
		{"", "xxxxx.."}, {"2026-08-12", "xxxx..."}, {"2026-08-15", "xxxxxxx"}, {"", "xxxxx.."},
	} {
		body := `{"site":"` + publishedSite + `","last_day":"` + c.last + `"}`
		if code, text := s.send(t, http.MethodPut, "/_sim/published", body); code != http.StatusNoContent {
			t.Fatalf("%s: %d %s", body, code, text)
		}
		if got := s.days(t, weekStart, weekEnd); got != c.want {
			t.Errorf("published up to %q, the week is %s, want %s", c.last, got, c.want)
		}
	}
	for _, body := range []string{`{"site":"sc-domain:unknown.example"}`, `{"site":"` + publishedSite + `","last_day":"today"}`, `{"last":1}`, ``} {
		if code, _ := s.send(t, http.MethodPut, "/_sim/published", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, code)
		}
	}
}

// Fresh data of a late site is incomplete from its first unpublished day on.
func TestIncompleteDaysFollowTheLastPublishedDay(t *testing.T) {
	t.Parallel()
	s := publishing(t, noon, gscsim.Site{Publication: gscsim.Publication{Lag: 4}})
	r := by("date")
	r.StartDate, r.EndDate, r.DataState = weekStart, "2026-08-16", "all"
	answer, err := s.api.Searchanalytics.Query(publishedSite, r).Do()
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Rows) != 8 || answer.ResponseAggregationType != "byProperty" || answer.Metadata == nil ||
		answer.Metadata.FirstIncompleteDate != "2026-08-13" {
		t.Errorf("%d rows, %s, metadata %+v", len(answer.Rows), answer.ResponseAggregationType, answer.Metadata)
	}
}

func TestBadDatesOfASitePanic(t *testing.T) {
	for name, site := range map[string]gscsim.Site{
		"first day": {URL: publishedSite, FirstDay: "yesterday"}, "quiet day": {URL: publishedSite, QuietDays: []string{"2026-02-30"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, publishedSite) {
					t.Errorf("New panics with %q, which does not name the site", text)
				}
			}()
			gscsim.New(gscsim.Config{Now: noon, Users: []gscsim.User{{Sites: []gscsim.Site{site}}}})
		})
	}
}
