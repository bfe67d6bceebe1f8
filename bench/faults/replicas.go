package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sara/bench/internal/testbed"
	"sara/proxy/upstream/gscsim"
)

func replicaFaults() []fault {
	return []fault{
		{name: "a replica is killed", short: true,
			begin: func(_ context.Context, w *world) error { return syscall.Kill(w.running[0].PID, syscall.SIGKILL) },
			end:   func(_ context.Context, w *world) error { return w.replace(0, false) }},
		{name: "a replica is paused", begin: func(_ context.Context, w *world) error { return syscall.Kill(w.running[0].PID, syscall.SIGSTOP) },
			end: func(_ context.Context, w *world) error { return syscall.Kill(w.running[0].PID, syscall.SIGCONT) }},
		{name: "the replicas restart in turn", begin: func(_ context.Context, w *world) error { return w.restartAll() }},
		{name: "a replica runs out of descriptors", begin: func(_ context.Context, w *world) error { return w.takeDescriptors() },
			end: func(_ context.Context, w *world) error { return w.returnDescriptors() }},
	}
}

func combinedFaults() []fault {
	stopRedis := func(w *world) error { return w.StopRedis(w.Redis) }
	startRedis := func(w *world) error { return w.StartRedis(w.Redis) }
	return []fault{
		{name: "the replicas restart while Redis is away", loses: replicasStart, begin: func(_ context.Context, w *world) error {
			if err := stopRedis(w); err != nil {
				return err
			}
			return w.restartAll()
		}, end: func(_ context.Context, w *world) error { return startRedis(w) }},
		{name: "the replicas restart while PostgreSQL is away", hold: 20 * time.Second, begin: func(_ context.Context, w *world) error {
			if err := w.StopPostgres(); err != nil {
				return err
			}
			return w.restartAll()
		}, end: func(_ context.Context, w *world) error { return w.StartPostgres() }},
		{name: "a replica is killed while Redis is away", loses: replicaCrashes, begin: func(_ context.Context, w *world) error {
			if err := stopRedis(w); err != nil {
				return err
			}
			return syscall.Kill(w.running[0].PID, syscall.SIGKILL)
		}, end: func(_ context.Context, w *world) error {
			return errors.Join(startRedis(w), w.replace(0, false))
		}},
		{name: "Redis and PostgreSQL are paused", short: true, loses: allNotice, begin: func(_ context.Context, w *world) error {
			if err := syscall.Kill(w.Redis.PID, syscall.SIGSTOP); err != nil {
				return err
			}
			return w.Postgres.Signal(syscall.SIGSTOP)
		}, end: func(_ context.Context, w *world) error {
			return errors.Join(syscall.Kill(w.Redis.PID, syscall.SIGCONT), w.Postgres.Signal(syscall.SIGCONT))
		}},
		{name: "Redis and PostgreSQL are away", loses: allNotice, begin: func(_ context.Context, w *world) error {
			return errors.Join(stopRedis(w), w.StopPostgres())
		}, end: func(_ context.Context, w *world) error { return errors.Join(w.StartPostgres(), startRedis(w)) }},
		{name: "the object store and the upstream are away", begin: func(_ context.Context, w *world) error {
			return errors.Join(w.StopS3(w.S3), w.Simulator.SetFaults(gscsim.Faults{DropRate: 1}))
		}, end: func(_ context.Context, w *world) error {
			return errors.Join(w.StartS3(w.S3), w.Simulator.SetFaults(gscsim.Faults{}))
		}},
		{name: "Redis, PostgreSQL, the object store and the upstream are away", loses: allNotice, begin: func(_ context.Context, w *world) error {
			w.upstream.hang.Store(true)
			return errors.Join(stopRedis(w), w.StopPostgres(), w.StopS3(w.S3))
		}, end: func(_ context.Context, w *world) error {
			w.upstream.hang.Store(false)
			return errors.Join(w.StartPostgres(), startRedis(w), w.StartS3(w.S3))
		}},
	}
}

func midnightFaults() []fault {
	offset := func(w *world) error { return w.restartBeforeMidnight() }
	return []fault{
		{name: "midnight of the replicas", hold: beforeMidnight, begin: func(_ context.Context, w *world) error { return offset(w) },
			end: func(_ context.Context, w *world) error { return w.restartInTime() }},
		{name: "midnight while Redis is away", hold: beforeMidnight, loses: replicasStart, midnights: 1,
			begin: func(_ context.Context, w *world) error { return errors.Join(w.StopRedis(w.Redis), offset(w)) },
			end:   func(_ context.Context, w *world) error { return errors.Join(w.restartInTime(), w.StartRedis(w.Redis)) }},
	}
}

// limitFiles sets the soft limit of open files of a replica; 0: to the hard limit.
func limitFiles(r *testbed.Replica, files uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(r.PID, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return err
	}
	if now.Cur = files; files == 0 {
		now.Cur = now.Max
	}
	return unix.Prlimit(r.PID, unix.RLIMIT_NOFILE, &now, nil)
}
