package status

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/settings"
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
	Problem     *string  `json:"problem"`
}

const (
	redisOK   = "ok"
	redisAway = "unreachable"
	redisNone = "none"
)

// sharedCounts are the counts that replicas share on Redis. Without a client, they are unavailable.
type sharedCounts struct {
	client redis.UniversalClient
	none   bool // no Redis: the serving process persists its counts in the database
}

func (s sharedCounts) close() {
	if s.client != nil {
		_ = s.client.Close() // only read
	}
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
	client, err := url.Open()
	if err != nil {
		status.Problem = problem(err)
		return status, sharedCounts{}
	}
	status.State = redisOK
	begun := time.Now()
	err = client.Ping(ctx).Err()
	took := float64(time.Since(begun).Microseconds()) / 1000
	status.LatencyMS = &took
	if err == nil {
		err = status.describe(ctx, client, url.Sentinel())
	}
	status.Problem = problem(err)
	return status, sharedCounts{client: client}
}

// describe reads INFO from every master.
func (s *Redis) describe(ctx context.Context, client redis.UniversalClient, sentinel bool) error {
	var mu sync.Mutex // guards s
	ask := func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return fmt.Errorf("ask Redis for its INFO: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		s.add(infoOf(text))
		return nil
	}
	switch client := client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, ask)
	case *redis.Client:
		if err := ask(ctx, client); err != nil {
			return err
		}
	}
	if sentinel {
		mode := "sentinel"
		s.Mode = &mode
	}
	return nil
}

// add adds the INFO of one server.
func (s *Redis) add(info map[string]string) {
	s.Nodes++
	if version, ok := info["redis_version"]; ok {
		s.Version = &version
	}
	if mode, ok := info["redis_mode"]; ok {
		s.Mode = &mode
	}
	s.MemoryBytes = addNumber(s.MemoryBytes, info["used_memory"])
	s.MaxMemory = addNumber(s.MaxMemory, info["maxmemory"])
}

func addNumber(sum *int64, text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return sum
	}
	if sum != nil {
		n += *sum
	}
	return &n
}

// infoOf parses the lines NAME:VALUE of an INFO.
func infoOf(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}
