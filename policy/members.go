package policy

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// membersKey is the Redis key of the sorted set of living replicas, each with the time of its last heartbeat.
const membersKey = "sara:replicas"

const (
	// memberLifetime is how long a replica counts as alive after a heartbeat. One that stops takes itself out.
	memberLifetime = 10 * time.Second
	// settleTime is how long a replica sends heartbeats until the others have surely counted it. Until then they share without it,
	// so it takes the smaller share of SARA_REPLICAS.
	settleTime = 3 * time.Second
)

// members counts the replicas that are alive, by their heartbeats in Redis. While Redis is down, the count stays what it was:
// only the replicas that were alive then share what was left, and those that start later take a share of SARA_REPLICAS.
type members struct {
	most int // SARA_REPLICAS

	mu    sync.Mutex // guards everything below
	first time.Time  // of this replica's heartbeats, by the clock of Redis
	last  time.Time
	seen  []memberCount // of the last memberLifetime
}

type memberCount struct {
	at time.Time
	n  int
}

// size returns how many replicas share the limits: the most that were alive at once lately, since Redis may have lost some.
func (m *members) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count()
}

// count is size, for a caller that holds the lock.
func (m *members) count() int {
	n := 1
	for _, c := range m.seen {
		n = max(n, c.n)
	}
	if m.first.IsZero() || m.last.Sub(m.first) < settleTime {
		n = max(n, m.most)
	}
	return n
}

// beat sends a heartbeat, and counts those of the others. It reports whether Redis has lost the previous one, and with it
// probably other data.
func (m *members) beat(ctx context.Context, client redisconn.Client, replica string, now time.Time) (lost bool, err error) {
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	var before *redis.FloatCmd
	var alive *redis.IntCmd
	living, ahead := now.Add(-memberLifetime).UnixMilli(), now.Add(memberLifetime).UnixMilli()
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		before = pipe.ZScore(ctx, membersKey, replica)
		pipe.ZAdd(ctx, membersKey, redis.Z{Score: float64(now.UnixMilli()), Member: replica})
		pipe.ZRemRangeByScore(ctx, membersKey, "-inf", "("+strconv.FormatInt(living, 10))
		pipe.ZRemRangeByScore(ctx, membersKey, "("+strconv.FormatInt(ahead, 10), "+inf") // of no replica: it would never go
		alive = pipe.ZCard(ctx, membersKey)
		pipe.Expire(ctx, membersKey, 2*memberLifetime)
		return nil
	})
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return true, client.Del(ctx, membersKey).Err() // the next heartbeats count again
	}
	if ignoreMissing(err) != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first.IsZero() {
		m.first = now
	}
	if gap := now.Sub(last); !last.IsZero() && gap > memberLifetime/2 {
		// Redis was away, or this process stood still, and the others may have been, too. None of their heartbeats may be left, and the
		// next ones come within a second or two.
		m.seen = []memberCount{{now, m.count()}}
	}
	m.last = now
	for len(m.seen) > 0 && now.Sub(m.seen[0].at) > memberLifetime {
		m.seen = m.seen[1:]
	}
	m.seen = append(m.seen, memberCount{now, int(alive.Val())})
	return !last.IsZero() && int64(before.Val()) < last.UnixMilli(), nil
}

// leave takes this replica out, so that the others need not wait until it has not been seen for a while.
func (m *members) leave(ctx context.Context, client redisconn.Client, replica string) error {
	return client.ZRem(ctx, membersKey, replica).Err()
}
