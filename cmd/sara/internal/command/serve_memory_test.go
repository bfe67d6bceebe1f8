package command

import (
	"log/slog"
	"strings"
	"testing"

	"sara/proxy"
)

func TestCacheOfMoreThanHalfOfTheMemoryIsWarnedOf(t *testing.T) {
	for _, test := range []struct {
		limit, cache int64
		want         bool
	}{{640 << 20, 256 << 20, false}, {512 << 20, 256 << 20, false}, {511 << 20, 256 << 20, true}, {0, 1 << 40, false}} {
		var log strings.Builder
		warnOfCacheSize(t.Context(), proxy.Config{Capacity: proxy.Capacity{MemoryLimit: test.limit},
			Cache: proxy.CacheConfig{Bytes: test.cache}, Process: proxy.Process{Log: slog.New(slog.NewTextHandler(&log, nil))}})
		if warned := strings.Contains(log.String(), "SARA_CACHE_BYTES is more than half"); warned != test.want {
			t.Errorf("%d of %d: %q", test.cache, test.limit, &log)
		}
	}
}
