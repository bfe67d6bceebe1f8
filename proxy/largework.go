package proxy

import (
	"context"
	"fmt"
	"runtime"

	"sara/translate"
)

const (
	// largeRows is how many rows make an answer large work: to build one of 50,000 rows takes some 5 MB beside the rows.
	largeRows = 5 * translate.NarrowSample
	// largeDays is how many archived days do: a day has up to 100 rows.
	largeDays = largeRows / 100
)

// largeWork is a semaphore of the requests that work on large row sets: merging, ranking, reading years of the archive. They are
// bound by the processor, so that more at a time would only take more memory, and keep short requests from running.
type largeWork chan struct{}

func newLargeWork() largeWork { return make(largeWork, max(2, runtime.GOMAXPROCS(0)/2)) }

// begin waits for a place. The caller calls end afterwards.
func (l largeWork) begin(ctx context.Context) (end func(), err error) {
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to work on many rows: %w", context.Cause(ctx))
	}
}

// beginRows is begin for work on a number of rows, which need no place if they are few.
func (l largeWork) beginRows(ctx context.Context, rows int) (end func(), err error) {
	if rows < largeRows {
		return func() {}, nil
	}
	return l.begin(ctx)
}

// beginArchive is begin for reading days of the archive by a dimension.
func (l largeWork) beginArchive(ctx context.Context, by translate.Dimension, days int) (end func(), err error) {
	if days < largeDays || by != translate.ByQuery && by != translate.ByPage {
		return func() {}, nil
	}
	return l.begin(ctx)
}
