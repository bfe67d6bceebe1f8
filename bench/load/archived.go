package main

import (
	"bytes"
	"context"
	"fmt"
	mathrand "math/rand/v2"

	"sara/bench/internal/loadgen"
	"sara/bench/trace"
)

// The archived days of the first property, counted back from the last day. The upstream has the last 16 months.
const (
	archivedFrom  = 1400
	archivedUntil = liveDays - 30
	liveDays      = 487 // 16 months, rounded up
	longestStored = 40
	ranges        = archivedFrom - liveDays - longestStored // of one length, with days of the archive only
)

// archive imports the history that the stored and hybrid scenarios request.
func (w *world) archive(ctx context.Context, _ string) error {
	if w.archived {
		return nil
	}
	w.archived = true
	return w.Archive(ctx, trace.Domain(0), w.history(1, archivedFrom, archivedUntil))
}

// history returns archived days, counted back from the last day, with as many queries as the archive keeps per day.
func (w *world) history(seed uint64, from, until int) []byte {
	random := mathrand.New(mathrand.NewPCG(seed, 2))
	var text bytes.Buffer
	text.WriteString("date,dimension,key,clicks,impressions,position\n")
	for back := from; back >= until; back-- {
		row := func(dimension, key string, clicks int) {
			fmt.Fprintf(&text, "%s,%s,%s,%d,%d,%.1f\n", w.day(back), dimension, key, clicks, clicks*20, 1+random.Float64()*30)
		}
		row("total", "", 5000)
		for i := range 100 {
			row("query", fmt.Sprintf("query %d of %d", random.IntN(4), i), 1+random.IntN(1000/(i+1)))
		}
	}
	return text.Bytes()
}

// stored requests one to six weeks of archived days, a new range each time. After about 28,000 requests ranges repeat: by then memory, which
// holds about 8,000 answers of 8 KB for one account, has evicted theirs.
func (w *world) stored() loadgen.Source {
	return func(int64) loadgen.Request {
		n := int(w.fresh.Add(1))
		first, length := archivedFrom-n%ranges, 7+n/ranges%(longestStored-7)
		return w.request(0, 0, w.table(trace.Domain(0), "queries", first, first-length+1, hitLimit))
	}
}

// hybrid requests ranges that begin up to five months before the live data and end with it. A new first day or limit each
// time makes each a new answer, up to 15,000. Memory holds half of them, and evicts each before it is requested again; if it held all, this
// would measure answers that are ready.
func (w *world) hybrid() loadgen.Source {
	const days, limits = 150, 100
	return func(int64) loadgen.Request {
		n := int(w.fresh.Add(1))
		return w.request(0, 0, w.table(trace.Domain(0), "queries", liveDays+1+n%days, 0, 10+n/days%limits))
	}
}

// Twelve months of days that only the archive has, for several properties.
const (
	years     = 8
	yearUntil = liveDays + 40
	yearFrom  = yearUntil + 364
)

func yearDomain(n int) string { return fmt.Sprintf("year-%d.example", n) }

func (w *world) archiveYears(ctx context.Context, _ string) error {
	if w.yearsArchived {
		return nil
	}
	w.yearsArchived = true
	for n := range years {
		if err := w.Archive(ctx, yearDomain(n), w.history(uint64(n), yearFrom, yearUntil)); err != nil {
			return err
		}
	}
	return nil
}

// years requests the archived year of each property in turn, with a new limit each time, so no answer is ready.
func (w *world) years() loadgen.Source {
	const least, limits = 10, 990
	return func(int64) loadgen.Request {
		n := int(w.fresh.Add(1))
		return w.request(0, 0, w.table(yearDomain(n%years), "queries", yearFrom, yearUntil, least+n/years%limits))
	}
}

func (w *world) oneYearEach() int { return years }

func (w *world) coldYears() loadgen.Source {
	return func(n int64) loadgen.Request {
		return w.request(0, 0, w.table(yearDomain(int(n)), "queries", yearFrom, yearUntil, hitLimit))
	}
}

// prepareColdYears leaves the archive unread, and everything else of the replica warm.
func (w *world) prepareColdYears(ctx context.Context, address string) error {
	if err := w.archiveYears(ctx, address); err != nil {
		return err
	}
	return w.askHits(ctx, address)
}
