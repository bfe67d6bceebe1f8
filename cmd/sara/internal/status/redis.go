package status

import (
	"context"
	"strings"
	"time"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/policy/redisconn"
	"sara/proxy/redisinfo"
)

// Redis shows the health of Redis.
type Redis struct {
	State       string   `json:"state"`      // ok, unreachable, or none when the settings name no Redis
	Address     string   `json:"address"`    // without secrets; empty for none
	LatencyMS   *float64 `json:"latency_ms"` // of one PING
	Version     *string  `json:"version"`
	Mode        *string  `json:"mode"` // standalone, sentinel or cluster
	Nodes       int      `json:"nodes"`
	MemoryBytes *int64   `json:"memory_bytes"`     // used, on all masters of a cluster together
	MaxMemory   *int64   `json:"max_memory_bytes"` // 0: no limit
	Policy      *string  `json:"eviction_policy"`  // maxmemory-policy
	EvictedKeys *int64   `json:"evicted_keys"`     // by Redis, since it started
	Problem     *string  `json:"problem"`

	evictionNote string // why counters are not safe there; empty if they are, and for a Redis without them
	sealNote     string // why replicas share no rows; empty if they do, and for a Redis of rows only
}

const (
	redisOK   = "ok"
	redisAway = "unreachable"
	redisNone = "none"
)

// sharedCounts are the counts that replicas share on Redis. Without a client, they are unavailable.
type sharedCounts struct {
	client redisconn.Client
	none   bool // no Redis: the serving process persists its counts in the database
}

func (s sharedCounts) close() {
	if s.client != nil {
		_ = s.client.Close() // only read
	}
}

// askCacheRedis queries the Redis of cached rows, if it is not that of the counts.
func askCacheRedis(ctx context.Context, counts settings.Redis, rows settings.SharedRows) *Redis {
	location, separate := rows.Location(counts)
	if !separate {
		return nil
	}
	status, opened := askRedis(ctx, location)
	opened.close()
	status.evictionNote = "" // rows may be evicted
	return &status
}

// askRedis queries Redis, and returns access to its counts if it answers.
func askRedis(ctx context.Context, url settings.Redis) (Redis, sharedCounts) {
	if !url.IsSet() {
		return Redis{State: redisNone}, sharedCounts{none: true}
	}
	status := Redis{State: redisAway, Address: url.String()}
	if err := backend.CheckRedis(ctx, url); err != nil {
		status.Problem = problem(err)
		return status, sharedCounts{}
	}
	client, err := backend.OpenRedis(url)
	if err != nil {
		status.Problem = problem(err)
		return status, sharedCounts{}
	}
	status.State = redisOK
	begun := time.Now()
	err = client.Ping(ctx).Err()
	status.LatencyMS = latency(begun)
	if err == nil {
		err = status.describe(ctx, client, url.Sentinel())
	}
	status.Problem = problem(err)
	return status, sharedCounts{client: client}
}

// judge decides what of a Redis needs attention.
func (s *Redis) judge(r *Report) {
	switch {
	case s.State == redisAway:
		r.attend("Redis: %s", console.Cell(s.Problem))
	case s.Problem != nil:
		r.attend("Redis does not report all of its state: %s", *s.Problem)
	}
	for _, note := range []string{s.evictionNote, s.sealNote} {
		if note != "" {
			r.attend("%s", note)
		}
	}
}

// describe reads INFO from every master.
func (s *Redis) describe(ctx context.Context, client redisconn.Client, sentinel bool) error {
	servers, err := redisinfo.Read(ctx, client)
	if err == nil || redisinfo.Refused(err) {
		s.evictionNote = backend.NoteOfEviction(servers)
	}
	if err != nil {
		return err
	}
	s.Nodes = len(servers)
	for _, server := range servers {
		s.Version, s.Mode = text(server["redis_version"]), text(server["redis_mode"])
	}
	if sentinel {
		s.Mode = text("sentinel")
	}
	policies := redisinfo.Policies(servers)
	s.Policy = text(strings.Join(policies, ", "))
	for name, number := range map[string]**int64{"used_memory": &s.MemoryBytes, "maxmemory": &s.MaxMemory, "evicted_keys": &s.EvictedKeys} {
		if sum, known := redisinfo.Sum(servers, name); known {
			*number = &sum
		}
	}
	return nil
}

// text is a string in JSON, null for what is not reported.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
