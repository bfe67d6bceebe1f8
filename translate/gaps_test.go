package translate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A comparison counts day i of either period if both are known, and a date if it is known in both years, whatever the gaps.
func TestCountedEqualsSlowReference(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	for range 6000 {
		length := 1 + random.IntN(12)
		start := Date(100)
		p := &Params{Compare: Comparison(random.IntN(3))}
		if p.Compare == PreviousYear { // most often around the end of a February, of a leap year or not
			start = NewDate(2023+random.IntN(3), time.February, 18+random.IntN(14))
			length = 1 + random.IntN(16)
		}
		p.Period = Period{DateRange: DateRange{Start: start, End: start + Date(length) - 1}}
		var g Gaps
		if random.IntN(2) == 0 {
			g.Unpublished = p.Period.End - Date(random.IntN(4))
		} else if random.IntN(2) == 0 {
			g.Unclear = p.Period.End - Date(random.IntN(4))
		}
		for day := min(p.Previous().Start, p.Period.Previous().Start); day <= p.Period.End; day++ {
			if random.IntN(3) == 0 {
				g.Missing = append(g.Missing, day)
			}
		}
		want, wantPrevious := slowCounted(p, g)
		counted := p.counted(g)
		if got := listed(counted); !slices.Equal(got, want) {
			t.Fatalf("%v without %v counts %v, want %v", p.Period, g, got, want)
		}
		if got := listed(p.previous(counted, g)); p.Compares() && !slices.Equal(got, wantPrevious) {
			t.Fatalf("%v without %v counts %v before, want %v", p.Period, g, got, wantPrevious)
		}
		waits := g.Unpublished != 0 && p.Period.Start >= g.Unpublished || g.Unclear != 0 && p.Period.Start >= g.Unclear
		if err := p.CheckComparable(g); (err != nil) != (p.Compares() && len(want) == 0 && !waits) {
			t.Fatalf("%v without %v: %v", p.Period, g, err)
		}
		wantNotes(t, p, g, length, len(want))
	}
}

// slowCounted counts days by their names: of the year before, the same month and day, and 02-28 for a 02-29.
func slowCounted(p *Params, g Gaps) (counted, before []Date) {
	known := func(day Date) bool {
		return !slices.Contains(g.Missing, day) && (g.Unpublished == 0 || day < g.Unpublished) && (!p.Compares() || g.Unclear == 0 || day < g.Unclear)
	}
	folded := func(day Date, years int) string {
		year, rest, _ := strings.Cut(day.String(), "-")
		n, _ := strconv.Atoi(year)
		return fmt.Sprintf("%d-%s", n+years, strings.Replace(rest, "02-29", "02-28", 1))
	}
	partners := map[Date]bool{}
	for i := range p.Period.Days() {
		now := p.Period.Start + Date(i)
		partner := p.Period.Previous().Start + Date(i)
		if p.Compare == PreviousYear {
			partner, _ = ParseDate(folded(now, -1))
		}
		if known(now) && (!p.Compares() || known(partner)) {
			counted = append(counted, now)
			partners[partner] = true
		}
	}
	for day := p.Previous().Start; day <= p.Previous().End; day++ {
		same := partners[day]
		if p.Compare == PreviousYear && !same && known(day) {
			twin, _ := ParseDate(folded(day, 0))
			same = partners[twin]
		}
		if same {
			before = append(before, day)
		}
	}
	return counted, before
}

func listed(ranges []DateRange) (days []Date) {
	for i, r := range ranges {
		if i > 0 && r.Start <= ranges[i-1].End+1 {
			panic(fmt.Sprintf("%v are not maximal", ranges))
		}
		for day := r.Start; day <= r.End; day++ {
			days = append(days, day)
		}
	}
	return days
}

func wantNotes(t *testing.T, p *Params, g Gaps, days, counted int) {
	t.Helper()
	text := strings.Join(p.notes(g), "\n")
	for day := p.Period.Start; day <= p.Period.End; day++ {
		if (g.has(day) || g.unclear(day)) && !slices.Contains(g.Missing, day) && !strings.Contains(text, day.String()) {
			t.Fatalf("no note names %s: %s", day, text)
		}
	}
	if compared := strings.Contains(text, "on one side"); compared != (p.Compares() && counted > 0 && counted < days) {
		t.Fatalf("%d of %d days are counted: %s", counted, days, text)
	}
}

func TestPresentDays(t *testing.T) {
	period := DateRange{Start: day("2026-11-13"), End: day("2026-11-14")}
	compared := &Params{Period: Period{DateRange: period}, Compare: PreviousPeriod}
	alone := &Params{Period: compared.Period}
	previous := DateRange{Start: day("2026-11-11"), End: day("2026-11-12")}
	days := func(numbers ...int) (list []Date) {
		for _, n := range numbers {
			list = append(list, NewDate(2026, time.November, n))
		}
		return list
	}
	for name, c := range map[string]struct {
		params           *Params
		missing, damaged []Date
		first            Date // that is present; 0: none
		period           DateRange
		isDamaged        bool
	}{
		"all present":                   {params: compared, first: day("2026-11-11")},
		"a day of each present":         {params: compared, missing: days(11, 14), first: day("2026-11-12")},
		"the previous period missing":   {params: compared, missing: days(11, 12), first: day("2026-11-13"), period: previous},
		"the previous period damaged":   {compared, days(11, 12), days(12), day("2026-11-13"), previous, true},
		"not compared":                  {params: alone, missing: days(11, 12), first: day("2026-11-13")},
		"the period missing":            {params: compared, missing: days(13, 14), first: day("2026-11-11"), period: period},
		"missing, another damaged":      {params: compared, missing: days(12, 13, 14), damaged: days(12), first: day("2026-11-11"), period: period},
		"both missing, the period only": {params: compared, missing: days(11, 12, 13, 14), damaged: days(11), period: period},
	} {
		g := Gaps{Missing: c.missing, Damaged: c.damaged}
		if first, ok := g.FirstPresent(c.params.Covered()); first != c.first || ok != (c.first != 0) {
			t.Errorf("%s: the first day is %s, %t, want %s", name, first, ok, c.first)
		}
		if r, damaged, ok := c.params.MissingPeriod(g); r != c.period || damaged != c.isDamaged || ok != (c.period != DateRange{}) {
			t.Errorf("%s: missing are %s to %s, damaged %t, %t", name, r.Start, r.End, damaged, ok)
		}
	}
}

// The sentences are part of the API.
func TestNotesOfGaps(t *testing.T) {
	f := func(p *Params, g Gaps, want ...string) {
		t.Helper()
		if got := p.notes(g); !slices.Equal(got, want) {
			t.Errorf("the notes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	period := func(start, end string) *Params {
		return &Params{Period: Period{DateRange: DateRange{Start: day(start), End: day(end)}}}
	}
	compared := func(start, end string) *Params {
		p := period(start, end)
		p.Compare = PreviousPeriod
		return p
	}
	f(period("2026-11-13", "2026-11-19"), Gaps{})
	f(period("2026-11-13", "2026-11-18"), Gaps{Unpublished: day("2026-11-19")})
	f(period("2026-11-13", "2026-11-19"), Gaps{Unpublished: day("2026-11-19")}, "Search Console has not published 2026-11-19 yet.")
	f(period("2026-11-13", "2026-11-19"), Gaps{Unpublished: day("2026-11-18")}, "Search Console has not published 2026-11-18 and 2026-11-19 yet.")
	f(period("2026-11-18", "2026-11-19"), Gaps{Unpublished: day("2026-11-15")}, "Search Console has not published 2026-11-18 and 2026-11-19 yet.")
	f(period("2026-11-13", "2026-11-18"), Gaps{Unclear: day("2026-11-19")})
	f(period("2026-11-13", "2026-11-19"), Gaps{Unclear: day("2026-11-19")}, "Search Console may not have published 2026-11-19 yet.")
	f(compared("2026-11-13", "2026-11-19"), Gaps{Unclear: day("2026-11-18")}, "Search Console may not have published 2026-11-18 and 2026-11-19 yet.",
		"2 of 7 days are missing on one side: both periods are compared over the other 5.")
	f(period("2026-11-13", "2026-11-19"), Gaps{Unpublished: day("2026-11-17")},
		"Search Console has not published 2026-11-17, 2026-11-18 and 2026-11-19 yet.")
	f(compared("2026-11-13", "2026-11-19"), Gaps{Unpublished: day("2026-11-18")},
		"Search Console has not published 2026-11-18 and 2026-11-19 yet.",
		"2 of 7 days are missing on one side: both periods are compared over the other 5.")
	f(compared("2026-11-19", "2026-11-19"), Gaps{Unpublished: day("2026-11-18")}, "Search Console has not published 2026-11-19 yet.")

	var missing []Date
	for d := day("2026-11-10"); d < day("2026-11-29"); d++ {
		missing = append(missing, d)
	}
	f(compared("2026-11-01", "2026-11-28"), Gaps{Missing: missing},
		"19 days are not archived and not counted: 2026-11-10 to 2026-11-28.",
		"19 of 28 days are missing on one side: both periods are compared over the other 9.")
	f(compared("2026-11-13", "2026-11-19"), Gaps{Unpublished: day("2026-11-19")}, "Search Console has not published 2026-11-19 yet.",
		"1 of 7 days is missing on one side: both periods are compared over the other 6.")
	f(period("2026-11-01", "2026-11-28"), Gaps{Missing: missing[:1]}, "1 day is not archived and not counted: 2026-11-10.")
}

// The upstream has 2025-02-14 to 2026-06-13. Movers compare the same days of both periods, from one source.
func TestPlanOfMovers(t *testing.T) {
	run := func(start, end string) (days []Date) {
		for d := day(start); d <= day(end); d++ {
			days = append(days, d)
		}
		return days
	}
	f := func(query string, unpublished string, missing []Date, want ...string) {
		t.Helper()
		s := Sources{Window: window(), Missing: missing}
		if unpublished != "" {
			s.Unpublished = day(unpublished)
		}
		var got []string
		for _, fetch := range MoversReport(ByPage).Plan(mustParse(t, Movers(), query), s, nil).Fetches {
			got = append(got, fetch.describe())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s fetches\n%s, want\n%s", query, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f("date_range=last_7d", "2026-06-12", nil,
		"page 2026-06-07..2026-06-11: live 2026-06-07..2026-06-11 25000", "page 2026-05-31..2026-06-04: live 2026-05-31..2026-06-04 25000")
	f("start_date=2026-06-12&end_date=2026-06-13", "2026-06-12", nil)

	const acrossTheEdge = "start_date=2025-02-17&end_date=2025-02-22" // before it: 2025-02-11 to 2025-02-16
	f(acrossTheEdge, "", nil, "page 2025-02-17..2025-02-22: stored 2025-02-17..2025-02-22", "page 2025-02-11..2025-02-16: stored 2025-02-11..2025-02-16")
	f(acrossTheEdge, "", []Date{day("2025-02-12"), day("2025-02-20")},
		"page 2025-02-17..2025-02-22: stored 2025-02-17..2025-02-17 stored 2025-02-19..2025-02-19 stored 2025-02-21..2025-02-22",
		"page 2025-02-11..2025-02-16: stored 2025-02-11..2025-02-11 stored 2025-02-13..2025-02-13 stored 2025-02-15..2025-02-16")
	f(acrossTheEdge, "", run("2025-02-11", "2025-02-13"),
		"page 2025-02-20..2025-02-22: live 2025-02-20..2025-02-22 25000", "page 2025-02-14..2025-02-16: live 2025-02-14..2025-02-16 25000")
	f(acrossTheEdge, "", run("2025-02-11", "2025-02-22"),
		"page 2025-02-20..2025-02-22: live 2025-02-20..2025-02-22 25000", "page 2025-02-14..2025-02-16: live 2025-02-14..2025-02-16 25000")
	f(acrossTheEdge, "", run("2025-02-17", "2025-02-22"))
	f("start_date=2025-02-14&end_date=2025-02-16", "", run("2025-02-11", "2025-02-16"))
}
