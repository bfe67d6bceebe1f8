package main

import (
	"context"
	"strings"
	"syscall"
	"time"
)

// A fault is a failure of something that sara depends on, or of a part of sara. It begins, is held, and ends.
type fault struct {
	name      string
	setup     setup
	short     bool          // part of the short form
	hold      time.Duration // at least; the options can lengthen it
	loses     loss          // what it does to the counts in Redis
	midnights int           // after each one the day is granted again
	cold      days          // of new questions, asked from the beginning of the fault on, which must be answered too; nil: none
	note      string        // that at least one of their answers must have
	begin     func(context.Context, *world) error
	end       func(context.Context, *world) error // also undoes what begin did in part; nil: it ends by itself
}

func faults() []fault {
	list := []fault{{name: "none", begin: nothing}}
	list = append(list, redisFaults()...)
	list = append(list, databaseFaults()...)
	list = append(list, storeFaults()...)
	list = append(list, upstreamFaults()...)
	list = append(list, replicaFaults()...)
	list = append(list, combinedFaults()...)
	list = append(list, midnightFaults()...)
	return append(list, setupFaults()...)
}

// days returns the days of the nth new question, from n = 1 on.
type days func(n int, w *world) (start, end time.Time)

// recentDays are in the live window, and in the archive.
func recentDays(n int, w *world) (start, end time.Time) {
	start = w.lastDay.AddDate(0, 0, -30-n%200)
	return start, start.AddDate(0, 0, 5+n/200)
}

// allArchived are the days from the first archived one, which is before the live window, to one in the window.
func allArchived(n int, w *world) (start, end time.Time) {
	const live = archivedDays - 60
	return w.archived(archivedDays), w.archived(1 + (live-n)%live)
}

func nothing(context.Context, *world) error { return nil }

func redisFaults() []fault {
	stop := func(_ context.Context, w *world) error { return w.StopRedis(w.Redis) }
	start := func(_ context.Context, w *world) error { return w.StartRedis(w.Redis) }
	command := func(args ...any) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error { return w.counters.Do(ctx, args...).Err() }
	}
	return []fault{
		{name: "Redis is away", loses: allNotice, begin: stop, end: start},
		{name: "Redis is killed and loads its log", loses: someNotice, begin: func(_ context.Context, w *world) error {
			if err := syscall.Kill(w.Redis.PID, syscall.SIGKILL); err != nil {
				return err
			}
			_ = w.StopRedis(w.Redis) // it was killed
			return w.StartRedis(w.Redis)
		}},
		{name: "Redis is paused", short: true, loses: allNotice,
			begin: func(_ context.Context, w *world) error { return syscall.Kill(w.Redis.PID, syscall.SIGSTOP) },
			end:   func(_ context.Context, w *world) error { return syscall.Kill(w.Redis.PID, syscall.SIGCONT) }},
		{name: "Redis is flushed", short: true, loses: allNotice, begin: command("FLUSHALL")},
		{name: "Redis loses half of its keys", loses: allNotice, begin: loseHalf},
		{name: "Redis restarts empty", loses: someNotice, begin: func(ctx context.Context, w *world) error {
			if err := w.counters.FlushAll(ctx).Err(); err != nil {
				return err
			}
			return w.RestartRedis(w.Redis)
		}},
		{name: "Redis is full", loses: allNotice, begin: command("CONFIG", "SET", "maxmemory", "1mb"), end: command("CONFIG", "SET", "maxmemory", "0")},
		{name: "Redis evicts counters", loses: someNotice, begin: func(ctx context.Context, w *world) error {
			if err := w.counters.ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err(); err != nil {
				return err
			}
			return w.counters.ConfigSet(ctx, "maxmemory", "1mb").Err()
		}, end: func(ctx context.Context, w *world) error {
			if err := w.counters.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
				return err
			}
			return w.counters.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err()
		}},
		{name: "Redis answers late", loses: allNotice, begin: command("CLIENT", "PAUSE", "1500", "ALL")},
		{name: "Redis forgets its scripts", begin: command("SCRIPT", "FLUSH")},
		{name: "Redis ends all connections", loses: someNotice, begin: command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")},
		{name: "Redis refuses writes", loses: allNotice, begin: command("REPLICAOF", "127.0.0.1", "1"), end: command("REPLICAOF", "NO", "ONE")},
	}
}

// loseHalf deletes every other key, like a failover to an old copy.
func loseHalf(ctx context.Context, w *world) error {
	keys, err := w.counters.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	for i, key := range keys {
		if i%2 == 0 {
			if err := w.counters.Del(ctx, key).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose returns the faults whose names contain one of the texts.
func choose(texts []string) (chosen []fault) {
	for _, f := range faults() {
		for _, text := range texts {
			if strings.Contains(f.name, text) {
				chosen = append(chosen, f)
				break
			}
		}
	}
	return chosen
}
