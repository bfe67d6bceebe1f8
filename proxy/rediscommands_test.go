package proxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy"
	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// countedIn puts the budgets into Redis, too. They wait for it as long as the cache does (over): a busy machine is no outage.
func countedIn(t *testing.T, client redisconn.Client) func(*Config) {
	return func(c *Config) {
		budget := policy.NewRedisBudget(policy.RedisBudgetConfig{Client: client, Replicas: 2, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Registry: prometheus.NewRegistry(), Timeout: 20 * time.Second})
		t.Cleanup(budget.Close)
		c.Admission.Budget = budget
	}
}

// A miss takes five commands of Redis: the request budgets; the copies, the cooldown and the lease; the live calls of the account, and
// those of the property; the row, its place in the index, the lease and the event. An answer from Redis takes the first two.
func TestQueries200RedisCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	control := server.Client()
	w := newWorld(t, over(server.Client()), countedIn(t, server.Client()))
	other := w.replica(over(server.Client()), countedIn(t, server.Client()))
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, upstreamRows(1001)) })
	answer := func(of *world, path, status string) (commands []string) {
		commands, inScripts := server.Commands(func() {
			if got := of.get("pro", path).ok(t).header.Get("X-Cache"); got != status {
				t.Errorf("%s is a %s, want a %s", path, got, status)
			}
			of.await(t, "the row in Redis", func() bool {
				keys := control.Keys(t.Context(), "sara:c:*").Val()
				return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":lease") })
			})
		})
		if inScripts > 60 {
			t.Errorf("scripts call %d commands", inScripts)
		}
		t.Logf("%s: %d commands in scripts", status, inScripts)
		// The test itself asks for keys, and replicas tell each other that they live.
		return slices.DeleteFunc(commands, func(name string) bool { return name == "keys" || name == "expire" || strings.HasPrefix(name, "z") })
	}
	// The first miss loads the scripts. On a busy machine, a lease may be renewed during another one.
	day, miss, hit := 0, []string(nil), []string(nil)
	w.await(t, "an undisturbed miss and hit", func() bool {
		day++
		path := w.path("main", fmt.Sprintf("/queries?start_date=2026-%02d-%02d&end_date=2026-11-10", 1+day/28%10, 1+day%28))
		miss, hit = answer(w, path, cacheMiss), answer(other, path, cacheHit)
		t.Log(miss, hit)
		return slices.Equal(miss, slices.Repeat([]string{"evalsha"}, 5)) && slices.Equal(hit, slices.Repeat([]string{"evalsha"}, 2))
	})
}
