package fillbudget

import (
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// watermark is the percentage of the memory limit above which the live heap admits no fill.
const watermark = 85

// HeapWatermark returns a Config.Pressed: whether the live heap is above 85 % of the memory limit. It reads the heap at most
// every 100 ms. While the heap is above, it collects garbage once a second, since without fills there may be little else
// to trigger a collection.
func HeapWatermark(limit int64, live func() uint64) func() bool {
	const readEvery, collectEvery = 100 * time.Millisecond, time.Second
	var mu sync.Mutex // guards the variables below
	var read, collected time.Time
	var collecting atomic.Bool
	above := false
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Sub(read) < readEvery {
			return above
		}
		read = now
		above = live() > uint64(limit)/100*watermark
		if above && now.Sub(collected) >= collectEvery && collecting.CompareAndSwap(false, true) {
			collected = now
			go func() {
				defer collecting.Store(false)
				runtime.GC()
			}()
		}
		return above
	}
}

// LiveHeap returns the bytes that were live at the end of the last garbage collection.
func LiveHeap() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(sample)
	if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0 // a Go version without this metric
	}
	return sample[0].Value.Uint64()
}
