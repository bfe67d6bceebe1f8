package main

import (
	"net/http"
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

// startMixedRedis starts a Redis that keeps its data when it restarts, like the one that deploy ships.
func (w *world) startMixedRedis() (*testbed.Redis, error) {
	return w.AddRedis("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory", w.redisMemory, "--maxmemory-policy", "noeviction")
}
