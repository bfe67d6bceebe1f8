package trial

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sara/bench/internal/gauge"
	"sara/bench/internal/wire"
)

func result(statuses map[int]int64) *wire.Result {
	r := &wire.Result{Statuses: statuses, Examples: map[int]string{500: "broken"}, Latency: hdrhistogram.New(1, int64(time.Minute), 2), Received: 8000}
	for _, n := range statuses {
		for range n {
			_ = r.Latency.RecordValue(int64(time.Millisecond))
		}
	}
	return r
}

func TestOtherStatusesAreAnError(t *testing.T) {
	if err := Unexpected(result(map[int]int64{200: 3, 429: 1}), http.StatusOK, http.StatusTooManyRequests); err != nil {
		t.Error(err)
	}
	if err := Unexpected(result(map[int]int64{200: 3, 500: 1}), http.StatusOK); err == nil || !strings.Contains(err.Error(), "1 of 4") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a 500 among others: %v", err)
	}
}

// The costs of all replicas are one, and a command that a script calls is neither a call nor time of its own.
func TestCostIsOfOneRequest(t *testing.T) {
	c := cost(result(map[int]int64{200: 10}), gauge.Used{
		Processes: map[string]gauge.Process{"sara0": {User: 300 * time.Microsecond}, "sara1": {System: 100 * time.Microsecond}, Client: {}},
		Heaps:     map[string]gauge.Heap{"sara0": {Objects: 50, Bytes: 900}, "sara1": {Objects: 10, Bytes: 100}},
		Redis: gauge.Redis{Reads: 5, Commands: map[string]gauge.Command{
			"evalsha": {Calls: 4, Took: 60 * time.Microsecond}, "hmget": {Calls: 4, Took: 20 * time.Microsecond}, "get": {Calls: 1, Took: 10 * time.Microsecond}}},
	}, 2)
	if c.CPU[Sara] != 40 || c.Objects != 6 || c.Allocated != 100 || c.Bytes != 800 {
		t.Errorf("the processes: %+v", c)
	}
	if c.RedisCalls != .5 || c.RedisReads != .5 || c.RedisCommand != 7 || c.Upstream != .2 {
		t.Errorf("Redis and the upstream: %+v", c)
	}
}
