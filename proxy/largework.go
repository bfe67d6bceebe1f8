package proxy

import (
	"context"
	"fmt"
	"runtime"

	"sara/proxy/cpubound"
	"sara/translate"
)

const (
	// An answer of at least largeRows is large work: building one of 50,000 rows takes some 5 MB in addition to the rows.
	largeRows = 5 * translate.NarrowSample
	// So is one of fewer rows with long keys, such as a thousand of the longest URLs: an answer may have all of their bytes.
	largeBytes = 512 << 10
	// So is to convert or to compress a text of at least largeText, which takes milliseconds.
	largeText = 128 << 10
	// So is an answer of at least largeDays from the archive: a day has up to 100 rows.
	largeDays = largeRows / 100
)

// largeWork bounds how many requests work on large row sets at a time: more would only take more memory, and keep short requests
// from running.
type largeWork struct {
	slots    *cpubound.Slots // to merge and rank rows
	archives chan struct{}   // to read years of the archive; it waits for the object store, so it takes no slot
}

func newLargeWork(slots *cpubound.Slots) largeWork {
	return largeWork{slots, make(chan struct{}, max(2, runtime.GOMAXPROCS(0)/2))}
}

// rowWork is how much an answer is built from.
type rowWork struct{ rows, bytes int }

func (w *rowWork) add(p translate.Part) {
	w.rows += p.Len()
	w.bytes += p.Size()
}

func (w rowWork) isLarge() bool { return w.rows >= largeRows || w.bytes >= largeBytes }

// beginRows waits for a slot to work on rows, unless they are few and short. The caller calls end afterwards.
func (l largeWork) beginRows(ctx context.Context, w rowWork) (end func(), err error) {
	if !w.isLarge() {
		return func() {}, nil
	}
	return l.slots.Release, l.slots.Acquire(ctx)
}

// beginText is the same for the text of an answer that is written in another form.
func (l largeWork) beginText(ctx context.Context, text []byte) (end func(), err error) {
	if len(text) < largeText {
		return func() {}, nil
	}
	return l.slots.Release, l.slots.Acquire(ctx)
}

// beginArchive is the same for reading days of the archive by a dimension.
func (l largeWork) beginArchive(ctx context.Context, by translate.Dimension, days int) (end func(), err error) {
	if days < largeDays || by != translate.ByQuery && by != translate.ByPage {
		return func() {}, nil
	}
	select {
	case l.archives <- struct{}{}:
		return func() { <-l.archives }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to read years of the archive: %w", context.Cause(ctx))
	}
}
