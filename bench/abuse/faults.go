package main

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"sara/bench/internal/testbed"
)

// A fault is a failure of what sara depends on. It begins, lasts, and ends.
type fault struct {
	name     string
	upstream bool // cold questions may fail
	begin    func(*mixture) error
	end      func(*mixture) error
}

// faults lists the faults of the mix. The first is none.
func (w *world) faults() []fault {
	nothing := func(*mixture) error { return nil }
	list := []fault{
		{"none", false, nothing, nothing},
		{"Redis hangs", false, func(m *mixture) error { return syscall.Kill(m.redis.PID, syscall.SIGSTOP) },
			func(m *mixture) error { return syscall.Kill(m.redis.PID, syscall.SIGCONT) }},
		broken("the upstream answers 500", outage{status: http.StatusInternalServerError}),
		{"Redis restarts", false, func(m *mixture) error { return m.world.RestartRedis(m.redis) }, nothing},
		broken("the upstream hangs", outage{delay: time.Minute}),
	}
	if w.postgres {
		list = append(list, fault{"the database hangs", false, func(m *mixture) error { return m.world.Postgres.Signal(syscall.SIGSTOP) },
			func(m *mixture) error { return m.world.Postgres.Signal(syscall.SIGCONT) }})
	}
	const slow = 2 * time.Second
	list = append(list, broken("the upstream is slow", outage{delay: slow}))
	if w.postgres {
		list = append(list, fault{"the database restarts", false, func(m *mixture) error { return m.world.RestartPostgres() }, nothing})
	}
	return append(list, broken("the upstream drops connections", outage{drop: true}))
}

// broken is a fault of the upstream.
func broken(name string, o outage) fault {
	return fault{name, true, func(m *mixture) error { m.world.upstream.begin(o); return nil },
		func(m *mixture) error { m.world.upstream.end(); return nil }}
}

// excuses are the times at which the upstream was down. It is safe for concurrent use.
type excuses struct {
	mu   sync.Mutex
	down [][2]time.Time // from and until, or zero for now
}

func (e *excuses) begin(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = append(e.down, [2]time.Time{now})
}

func (e *excuses) end(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down[len(e.down)-1][1] = now
}

const (
	answerTime = 25 * time.Second // of any request, so that one that was due this long before may meet the fault
	recovery   = 15 * time.Second // until the circuit breaker tries again
)

// allow reports whether the error of a question is documented: a cold one may be unavailable while the upstream is down.
func (e *excuses) allow(kind, failure string, due time.Time) bool {
	if kind != coldHit || !strings.HasPrefix(failure, "503 ") {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.down {
		if due.After(d[0].Add(-answerTime)) && (d[1].IsZero() || due.Before(d[1].Add(recovery))) {
			return true
		}
	}
	return false
}

// startMixedRedis starts a Redis that keeps what it has when it restarts, as the one that deploy ships.
func (w *world) startMixedRedis() (*testbed.Redis, error) {
	return w.AddRedis("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory", w.redisMemory, "--maxmemory-policy", "noeviction")
}
