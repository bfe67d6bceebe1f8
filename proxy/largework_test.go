package proxy

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"sara/proxy/cache"
	"sara/proxy/cpubound"
	"sara/proxy/media"
	"sara/translate"
)

func TestLargeWorkIsBounded(t *testing.T) {
	t.Parallel()
	places := newLargeWork(cpubound.New())
	rows, archives := fillLargeWork(t, places)
	left, cancel := context.WithCancel(t.Context())
	cancel()
	for name, begin := range map[string]func(context.Context) (func(), error){
		"rows":      func(ctx context.Context) (func(), error) { return places.beginRows(ctx, rowWork{rows: largeRows}) },
		"long keys": func(ctx context.Context) (func(), error) { return places.beginRows(ctx, rowWork{bytes: largeBytes}) },
		"archive": func(ctx context.Context) (func(), error) {
			return places.beginArchive(ctx, translate.ByPage, largeDays)
		},
		"queries of the archive": func(ctx context.Context) (func(), error) {
			return places.beginArchive(ctx, translate.ByQuery, largeDays)
		},
	} {
		if _, err := begin(left); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, begin := range map[string]func(context.Context) (func(), error){
		"few rows": func(ctx context.Context) (func(), error) {
			return places.beginRows(ctx, rowWork{largeRows - 1, largeBytes - 1})
		},
		"few days": func(ctx context.Context) (func(), error) {
			return places.beginArchive(ctx, translate.ByPage, largeDays-1)
		},
		"countries": func(ctx context.Context) (func(), error) { return places.beginArchive(ctx, translate.ByCountry, 1000) },
	} {
		if end, err := begin(left); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			end()
		}
	}
	rows()
	archives()
	for range 2 {
		end, err := places.beginRows(t.Context(), rowWork{rows: largeRows})
		if err != nil {
			t.Fatal(err)
		}
		end()
	}
	if end, err := places.beginArchive(t.Context(), translate.ByPage, largeDays); err != nil {
		t.Error(err)
	} else {
		end()
	}
}

// A sizedPart has no rows to read.
type sizedPart struct{ rows, bytes int }

func (p sizedPart) Len() int  { return p.rows }
func (p sizedPart) Size() int { return p.bytes }

func TestRowWorkIsThatOfAllParts(t *testing.T) {
	t.Parallel()
	var w rowWork
	w.add(sizedPart{2, 30})
	w.add(sizedPart{5, 400})
	if w != (rowWork{7, 430}) {
		t.Errorf("the work is %+v", w)
	}
}

// fillLargeWork takes all places, and returns functions that give one back each.
func fillLargeWork(t *testing.T, places largeWork) (endRows, endArchive func()) {
	t.Helper()
	full, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		end, err := places.beginRows(full, rowWork{rows: largeRows})
		if err != nil {
			break
		}
		endRows = end
	}
	for range cap(places.archives) {
		end, err := places.beginArchive(t.Context(), translate.ByPage, largeDays)
		if err != nil {
			t.Fatal(err)
		}
		endArchive = end
	}
	return endRows, endArchive
}

// While all places are taken, a long answer waits for its compression; what is short, is not compressed, has been, or has a turn, does
// not.
func TestLongAnswersAreCompressedInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	zipped, plain := &exchange{route: &route{}, header: requestHeader{gzip: true}}, &exchange{route: &route{}}
	short := reply{answer: cache.NewAnswer(make([]byte, largeText-1), time.Time{})}
	long := reply{answer: cache.NewAnswer(make([]byte, largeText), time.Time{})}
	built := &exchange{call: call{turn: func() {}}, route: &route{}, header: requestHeader{gzip: true}}
	other := reply{answer: cache.NewAnswer(make([]byte, largeText), time.Time{})}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	fill := func() (end func()) {
		for {
			one, err := w.server.reports.largeWork.beginText(left, long.answer.Head())
			if err != nil {
				return end
			}
			end = one
		}
	}
	end := fill()
	if _, err := w.server.forms.finish(left, zipped, long); !errors.Is(err, context.Canceled) {
		t.Errorf("without a place: %v", err)
	}
	end()
	if _, err := w.server.forms.finish(t.Context(), zipped, long); err != nil {
		t.Errorf("with a place: %v", err)
	}
	end = fill()
	defer end()
	for name, test := range map[string]struct {
		x *exchange
		r reply
	}{"short": {zipped, short}, "plain": {plain, long}, "compressed before": {zipped, long}, "with a turn": {built, other}} {
		if _, err := w.server.forms.finish(left, test.x, test.r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While all places are taken, an answer from many rows waits; hits and small answers do not.
func TestPages200WhileLargeWorkIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("large", "/queries")
	w.get("pro", path, "order_by", "impressions").ok(t)
	end, _ := fillLargeWork(t, w.server.reports.largeWork)
	w.get("pro", path, "order_by", "impressions").ok(t)
	w.get("pro", w.path("large", "/summary")).ok(t)
	answered := make(chan int)
	go func() {
		request, _ := http.NewRequest(http.MethodGet, w.base+path+"?order_by=ctr", nil)
		request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			answered <- 0
			return
		}
		_ = answer.Body.Close()
		answered <- answer.StatusCode
	}()
	select {
	case status := <-answered:
		t.Fatalf("it is answered %d without a place", status)
	case <-time.After(50 * time.Millisecond):
	}
	end()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("it is answered %d", status)
	}
}

// A large answer takes its form in the turn in which it is built, and gives that back: one place suffices.
func TestQueries200FormatsInOneTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end, _ := fillLargeWork(t, w.server.reports.largeWork)
	end() // which leaves one place
	for _, order := range []string{"impressions", "ctr"} {
		w.in(acceptCSV, "pro", w.path("large", "/queries"), "order_by", order, "limit", "1000").okFormat(t, media.CSV.ContentType())
	}
}
