package gscsim_test

import (
	"slices"
	"testing"
	"time"

	"sara/proxy/upstream/gscsim"
)

func TestCoverageEqualsInspections(t *testing.T) {
	t.Parallel()
	config := testConfig()
	config.Quotas.InspectionsPerMinute, config.Quotas.InspectionsPerDay = -1, -1
	s := start(t, config)
	past := noon().AddDate(0, 0, -40)
	config.Now = func() time.Time { return past }
	earlier := start(t, config)
	changed := 0
	before := s.Coverage(prefixSite, past)
	for i, page := range s.Coverage(prefixSite, noon()) {
		status := s.inspect(t, prefixSite, page.URL)
		if status.CoverageState != page.CoverageState {
			t.Errorf("%s is %q, its inspection shows %q", page.URL, page.CoverageState, status.CoverageState)
		}
		if crawled, err := time.Parse(time.RFC3339, status.LastCrawlTime); status.LastCrawlTime != "" && (err != nil || crawled.After(noon())) {
			t.Errorf("%s was crawled at %q", page.URL, status.LastCrawlTime)
		}
		if then := earlier.inspect(t, prefixSite, page.URL).CoverageState; before[i].URL != page.URL || before[i].CoverageState != then {
			t.Errorf("forty days ago %s was %q, the coverage of then is %+v", page.URL, then, before[i])
		}
		if before[i].CoverageState != page.CoverageState {
			changed++
		}
	}
	if changed == 0 {
		t.Error("nothing changed in forty days")
	}
	if s.Coverage("sc-domain:other.example", noon()) != nil {
		t.Error("an unknown site has a coverage")
	}
	if young := s.Coverage("sc-domain:young.example", noon()); len(young) != 20 {
		t.Errorf("a site of 20 pages without sitemaps has %d addresses", len(young))
	}
}

func TestCoverageDriftsALittleEveryDay(t *testing.T) {
	s := gscsim.New(testConfig())
	const days = 365
	first := s.Coverage(domainSite, noon())
	previous := first
	moved, spells := 0, make([]int, len(first))
	for n := 1; n <= days; n++ {
		today := s.Coverage(domainSite, noon().AddDate(0, 0, n))
		changes, out := 0, 0
		for i, page := range today {
			if page.CoverageState != previous[i].CoverageState {
				changes++
			}
			if page.CoverageState != "Submitted and indexed" && previous[i].CoverageState == "Submitted and indexed" {
				spells[i]++
			}
			if page.CoverageState != "Submitted and indexed" && spells[i] > 0 {
				out++
			}
		}
		if changes > 0 {
			moved++
		}
		if changes > len(first)/20 || out > len(first)/8 {
			t.Errorf("on day %d %d of %d pages change and %d are out", n, changes, len(first), out)
		}
		previous = today
	}
	if moved < days*8/10 {
		t.Errorf("something changed on %d of %d days", moved, days)
	}
	if spells[0] != 0 || first[0].CoverageState != "Submitted and indexed" {
		t.Errorf("the home page was out %d times", spells[0])
	}
	for i, n := range spells {
		if n > 5 || n == 0 && first[i].CoverageState == "Submitted and indexed" && i > 0 {
			t.Errorf("%s is %q and was out %d times in a year", first[i].URL, first[i].CoverageState, n)
		}
	}
}

func TestCoverageChangesAtPacificMidnight(t *testing.T) {
	s := gscsim.New(testConfig())
	midnight := time.Date(2026, 8, 16, 7, 0, 0, 0, time.UTC)
	for n := range 30 {
		at := midnight.AddDate(0, 0, n)
		if !slices.Equal(s.Coverage(domainSite, at), s.Coverage(domainSite, at.Add(24*time.Hour-time.Second))) {
			t.Errorf("a state changes within the Pacific day of %v", at)
		}
	}
}

func BenchmarkCoverageOfAYear(b *testing.B) {
	s := gscsim.New(testConfig())
	s.Coverage(domainSite, noon())
	for b.Loop() {
		for n := range 365 {
			s.Coverage(domainSite, noon().AddDate(0, 0, -n))
		}
	}
}
