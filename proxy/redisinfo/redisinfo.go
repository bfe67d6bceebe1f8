// Package redisinfo reads what Redis servers report about themselves with INFO: memory, eviction policy, version.
//
// It never uses CONFIG, which managed services forbid. A service may forbid INFO too, or leave lines out: what is not reported
// is unknown, and must not be taken for a good value.
package redisinfo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// Server is the INFO of one server: its lines by name.
type Server map[string]string

// Read returns the INFO of the server, or of each master of a cluster, in no particular order. An error that Refused reports
// means that the server answers, but does not let this user read its INFO.
func Read(ctx context.Context, client redisconn.Client) ([]Server, error) {
	var mu sync.Mutex // guards servers
	var servers []Server
	err := redisconn.EachMaster(ctx, client, func(ctx context.Context, node redis.Cmdable) error {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return fmt.Errorf("ask Redis for its INFO: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, parse(text))
		return nil
	})
	return servers, err
}

// Refused reports whether an error is a reply of the server, which waiting does not change, and not an outage.
func Refused(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	for _, outage := range []string{"LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "READONLY"} {
		if strings.HasPrefix(reply.Error(), outage) {
			return false
		}
	}
	return true
}

// parse reads the lines NAME:VALUE of an INFO.
func parse(text string) Server {
	s := make(Server)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			s[name] = value
		}
	}
	return s
}

// number returns a number, and whether the server reports it.
func (s Server) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s[name], 10, 64)
	return n, err == nil
}

// Memory returns the bytes that count against the server's limit, and the limit, 0 for none. Buffers of replicas and of the
// append-only file do not count. known is false if the server does not report both.
func (s Server) Memory() (used, most int64, known bool) {
	used, usedKnown := s.number("used_memory")
	most, mostKnown := s.number("maxmemory")
	uncounted, _ := s.number("mem_not_counted_for_evict")
	return used - uncounted, most, usedKnown && mostKnown
}

// noEviction is the policy under which a full server refuses writes, and deletes nothing.
const noEviction = "noeviction"

// Policies returns the eviction policies that servers report, sorted, without duplicates.
func Policies(servers []Server) (policies []string) {
	for _, s := range servers {
		if policy := s["maxmemory_policy"]; policy != "" {
			policies = append(policies, policy)
		}
	}
	slices.Sort(policies)
	return slices.Compact(policies)
}

// MayEvict reports whether one of the servers deletes keys to make room for others: it has a memory limit, and any policy but
// noeviction. The counters of budgets expire, so the volatile-... policies delete them too. known is false if that cannot
// be said, because a server does not report its policy.
func MayEvict(servers []Server) (evicts, known bool) {
	known = len(servers) > 0
	for _, s := range servers {
		policy := s["maxmemory_policy"]
		most, limitKnown := s.number("maxmemory")
		if policy != "" && policy != noEviction && (most > 0 || !limitKnown) {
			return true, true
		}
		known = known && policy != ""
	}
	return false, known
}

// Sum returns the sum of a number over servers. known is false if one does not report it.
func Sum(servers []Server, name string) (sum int64, known bool) {
	known = len(servers) > 0
	for _, s := range servers {
		n, ok := s.number(name)
		sum, known = sum+n, known && ok
	}
	return sum, known
}
