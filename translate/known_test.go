package translate

import (
	"math/rand/v2"
	"testing"
)

// knownReference derives what a series tells day by day, from a map.
func knownReference(figures map[Date]bool, asked DateRange, anchor Date) (first, last Date, ok bool, unpublished Date) {
	for day := asked.Start; day <= asked.End; day++ {
		if figures[day] {
			if !ok {
				first, ok = day, true
			}
			last = day
		}
	}
	if !ok || min(anchor, asked.End)-last > 5 { // what was late at the end of the series is not on time since
		return first, last, ok, 0
	}
	for n := Date(1); n <= 14; n++ {
		if day := last - n; day < asked.Start || !figures[day] {
			return first, last, ok, 0
		}
	}
	if last >= anchor || last == asked.End {
		return first, last, ok, 0
	}
	return first, last, ok, last + 1
}

func wantKnown(t *testing.T, figures map[Date]bool, asked DateRange, anchor Date) {
	t.Helper()
	var b RowsBuilder
	for day := asked.Start - 2; day <= asked.End+2; day++ {
		has, listed := figures[day]
		switch {
		case has:
			b.Add([]byte(day.String()), Metrics{Impressions: 1, Position: 1})
		case listed: // the upstream may send a day without figures as zeros
			b.Add([]byte(day.String()), Metrics{})
		}
	}
	k := KnownDaysOf(b.Rows(), asked)
	first, last, ok, unpublished := knownReference(figures, asked, anchor)
	gotFirst, gotLast, gotOK := k.Bounds()
	if gotOK != ok || ok && (gotFirst != first || gotLast != last) {
		t.Errorf("figures from %s to %s (%v), want %s to %s (%v)", gotFirst, gotLast, gotOK, first, last, ok)
	}
	if got := k.Unpublished(anchor); got != unpublished {
		t.Errorf("at %s, asked %v: unpublished from %s, want %s", anchor, asked, got, unpublished)
	}
	published := anchor - 5
	for day := max(published, asked.Start); day <= min(anchor, asked.End); day++ {
		if figures[day] {
			published = day
		}
	}
	if unpublished != 0 {
		published = unpublished - 1
	}
	if got := k.Published(anchor); got != published {
		t.Errorf("at %s, asked %v: published for certain until %s, want %s", anchor, asked, got, published)
	}
}

// FuzzKnownDays reads a world from bytes: two bits a day, counted back from the last day asked, and how far the anchor is ahead.
func FuzzKnownDays(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff}, uint8(0))
	f.Add([]byte{0xfc, 0xff, 0xff, 0xff, 0xff}, uint8(0))
	f.Add([]byte{0x00, 0xfc, 0xff, 0xff, 0xff, 0xff}, uint8(1))
	f.Fuzz(func(t *testing.T, bits []byte, ahead uint8) {
		asked := DateRange{Start: day("2026-06-13") - Date(min(4*len(bits), 488)) + 1, End: day("2026-06-13")}
		if asked.Days() < 1 {
			return
		}
		figures := map[Date]bool{}
		for i := range asked.Days() {
			switch bits[i/4] >> (i % 4 * 2) & 3 {
			case 0:
			case 1:
				figures[asked.End-Date(i)] = false
			default:
				figures[asked.End-Date(i)] = true
			}
		}
		wantKnown(t, figures, asked, asked.End+Date(ahead%8))
	})
}

func TestKnownDaysEqualSlowReference(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 3000 {
		anchor := day("2026-06-13")
		asked := DateRange{Start: anchor - Date(1+random.IntN(40)), End: anchor - Date(random.IntN(3)/2)}
		figures := map[Date]bool{}
		late, young, hole := Date(random.IntN(8)), Date(random.IntN(80)), anchor-Date(random.IntN(40))
		for day := anchor - young; day <= anchor-late; day++ {
			if day != hole || random.IntN(2) == 0 {
				figures[day] = true
			}
		}
		figures[anchor-Date(random.IntN(50))] = false
		wantKnown(t, figures, asked, anchor)
	}
	if first, last, ok := (KnownDays{}).Bounds(); ok || (KnownDays{}).Unpublished(day("2026-06-13")) != 0 {
		t.Errorf("without a series there are figures from %s to %s", first, last)
	}
}

func TestLostDaysOfASeries(t *testing.T) {
	start := NewDate(2025, 7, 20)
	window := DateRange{Start: start, End: start + 486}
	for _, c := range []struct {
		first Date // with figures
		quiet Date // after it, without; 0: none
		want  Date
	}{
		{start, 0, 0}, {start + 1, 0, start}, {start + 5, 0, start + 4}, {start + 6, 0, 0}, // young
		{start + 2, start + 3, 0}, {start + 2, start + 16, 0}, {start + 2, start + 17, start + 1}, {start, start + 1, 0},
	} {
		var b RowsBuilder
		for _, other := range []string{(start - 1).String(), "all"} { // rows of no day of the window
			b.Add([]byte(other), Metrics{Impressions: 1, Position: 1})
		}
		for day := start; day <= start+40; day++ {
			m := Metrics{}
			if day >= c.first && day != c.quiet {
				m = Metrics{Impressions: 1, Position: 1}
			}
			b.Add([]byte(day.String()), m)
		}
		if got := LostUntil(b.Rows(), window); got != c.want {
			t.Errorf("figures from %s on, but on %s: lost until %s, want %s", c.first, c.quiet, got, c.want)
		}
	}
}

// A series explains the days that it has, and those after days that it shows as not published.
func TestDaysThatASeriesDoesNotExplain(t *testing.T) {
	anchor := day("2026-06-13")
	asked := DateRange{Start: anchor - 60, End: anchor}
	series := func(end, last Date) KnownDays {
		return KnownDays{asked: DateRange{Start: asked.Start, End: end}, first: asked.Start, last: last, any: true, steady: true}
	}
	sparse := series(anchor-1, anchor-3)
	sparse.steady = false
	for name, c := range map[string]struct {
		known KnownDays
		left  int
		old   bool // it may not show that the anchor's day is not published
	}{
		"none":                                 {KnownDays{}, 4, false},
		"today's":                              {series(anchor, anchor), 0, false},
		"today's, without figures":             {KnownDays{asked: asked}, 0, false},
		"yesterday's":                          {series(anchor-1, anchor-1), 1, true},
		"yesterday's, without the day before":  {series(anchor-1, anchor-2), 0, false},
		"yesterday's, of a site with few days": {sparse, 3, false}, // the day counts as one without traffic
	} {
		if left := c.known.Unclear(DateRange{Start: anchor - 3, End: anchor}, anchor); left.End != anchor || left.Days() != c.left {
			t.Errorf("%s: %s to %s is left, want %d days", name, left.Start, left.End, c.left)
		}
		if from := c.known.UnclearFrom(anchor); from != 0 != c.old || c.old && from != anchor {
			t.Errorf("%s: unclear from %s", name, from)
		}
	}
}
