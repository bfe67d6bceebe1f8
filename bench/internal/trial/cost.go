package trial

import (
	"strings"
	"time"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/wire"
)

// inScripts are the Redis commands that only sara's scripts call, as far as a server counts them here.
func inScripts() []string { return []string{"time", "hmget", "hset", "hgetall", "hdel", "expire"} }

// process is the name that a server's figures go under: all replicas are sara.
func process(server string) string {
	if strings.HasPrefix(server, Sara) {
		return Sara
	}
	return server
}

func resident(r *gauge.Reading) map[string]int64 {
	bytes := map[string]int64{}
	for name, p := range r.Processes {
		bytes[process(name)] += p.Resident
	}
	return bytes
}

// cost divides what was used by the requests.
func cost(result *wire.Result, used gauge.Used, calls int64) report.Cost {
	n := float64(max(1, result.Requests()))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / n }
	c := report.Cost{
		CPU: map[string]float64{}, RedisCalls: float64(used.Redis.Calls(inScripts()...)) / n, RedisReads: float64(used.Redis.Reads) / n,
		Upstream: float64(calls) / n, Bytes: float64(result.Received) / n,
	}
	for name, p := range used.Processes {
		c.CPU[process(name)] += micros(p.CPU())
	}
	var inCommands time.Duration
	for _, name := range inScripts() { // their time is in their scripts', too
		inCommands -= used.Redis.Commands[name].Took
	}
	for _, command := range used.Redis.Commands {
		inCommands += command.Took
	}
	c.RedisCommand = micros(inCommands)
	for _, heap := range used.Heaps {
		c.Objects += heap.Objects / n
		c.Allocated += heap.Bytes / n
	}
	return c
}
