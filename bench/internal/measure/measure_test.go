package measure

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/procstat"
)

// The costs of all replicas are summed, and a command that a script calls counts as neither a call nor time of its own.
func TestCostOfOneRequest(t *testing.T) {
	result := &loadgen.Result{Statuses: map[int]int64{200: 10}, Latency: hdrhistogram.New(1, int64(time.Minute), 2), Received: 8000}
	for range 10 {
		_ = result.Latency.RecordValue(int64(time.Millisecond))
	}
	c := cost(result, procstat.Used{
		Processes: map[string]procstat.Process{"sara0": {User: 300 * time.Microsecond}, "sara1": {System: 100 * time.Microsecond}, Client: {}},
		Heaps:     map[string]procstat.Heap{"sara0": {Objects: 50, Bytes: 900}, "sara1": {Objects: 10, Bytes: 100}},
		Redis: procstat.Redis{Reads: 5, Commands: map[string]procstat.Command{
			"evalsha": {Calls: 4, Took: 60 * time.Microsecond}, "hmget": {Calls: 4, Took: 20 * time.Microsecond},
			"ping": {Calls: 1, Took: 10 * time.Microsecond}}},
	}, 2)
	if c.CPU[Sara] != 40 || c.Objects != 6 || c.Allocated != 100 || c.Bytes != 800 {
		t.Errorf("processes: %+v", c)
	}
	if c.RedisCalls != .5 || c.RedisReads != .5 || c.RedisCommand != 7 || c.Upstream != .2 {
		t.Errorf("Redis and the upstream: %+v", c)
	}
}
