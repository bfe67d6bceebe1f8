package loadgen

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

const (
	exampleSize = 500

	longest     = time.Minute
	significant = 2 // digits of a latency
)

// newHistogram returns an empty histogram, which takes a few tens of kilobytes.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), significant) }

// A worker counts the answers to the requests that it sends over its connection. It belongs to one goroutine.
type worker struct {
	*connection
	answer fasthttp.Response

	statuses map[int]int64
	cache    map[string]*int64
	examples map[int]string
}

func newWorker(ctx context.Context, address string) (*worker, error) {
	c, err := open(ctx, address)
	return &worker{connection: c, statuses: map[int]int64{}, cache: map[string]*int64{}, examples: map[int]string{}}, err
}

// send sends a request and counts the answer.
func (w *worker) send(request Request) error {
	if err := w.exchange(request, &w.answer); err != nil {
		return err
	}
	w.count()
	return nil
}

func (w *worker) count() {
	status := w.answer.StatusCode()
	w.statuses[status]++
	if state := w.answer.Header.Peek("X-Cache"); len(state) > 0 {
		count, ok := w.cache[string(state)]
		if !ok {
			count = new(int64)
			w.cache[string(state)] = count
		}
		*count++
	}
	if _, ok := w.examples[status]; !ok && status != fasthttp.StatusOK && status != fasthttp.StatusNotModified {
		body := w.answer.Body()
		w.examples[status] = string(body[:min(len(body), exampleSize)])
	}
}
