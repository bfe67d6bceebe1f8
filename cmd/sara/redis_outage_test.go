package main

import (
	"net/http"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/policy/redistest"
)

// An outage of the Redis of rows leaves the counters where they are, and the other way round; /readyz says which one is away.
func testSeparateRedis(t *testing.T, binary string) {
	counters, rows := redistest.Single(t), redistest.Single(t, "--requirepass", "sesame")
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	key := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "only")["key"].(string)
	c.Env = append(c.Env, "SARA_REDIS_URL="+counters.URL(), "SARA_REDIS_CACHE_URL=redis://:sesame@"+rows.Addr(),
		"SARA_UPSTREAM_URL=http://127.0.0.1:1", "SARA_OAUTH_TOKEN_URL=http://127.0.0.1:1")
	p, base, admin := serving(t, binary, c.Env)
	killRows := func() { // and look for rows, or the outage would be noticed ten seconds later
		t.Helper()
		rows.Kill()
		clitest.WantStatus(t, http.StatusServiceUnavailable, base+"/v1/properties/shop.example/queries", key)
	}
	probe := func(want string) {
		t.Helper()
		clitest.Poll(t, "/readyz says "+want, func() bool {
			body := strings.TrimSpace(clitest.WantStatus(t, http.StatusOK, admin+"/readyz", "").Body)
			return body == want || strings.HasPrefix(body, want+" less than a minute ago")
		})
	}
	const rowsAway, countersAway = "the Redis of cached rows is away, this replica shares none", "Redis is away, budgets are this replica's own share"
	probe("ready")
	killRows()
	probe("degraded: " + rowsAway)
	if today := usageToday(t, base, key); today != 2 || counters.Client().DBSize(t.Context()).Val() == 0 {
		t.Errorf("without the Redis of rows, %d requests are counted today", today)
	}
	rows.Start()
	probe("ready")
	if n := rows.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the Redis of rows has %d keys of counters", n)
	}
	counters.Kill()
	clitest.WantStatus(t, http.StatusOK, base+"/v1/me", key) // notices
	probe("degraded: " + countersAway)
	killRows()
	probe("degraded: " + countersAway + "; " + rowsAway)
	counters.Start()
	rows.Start()
	probe("degraded: Redis lost counts, which this replica restored")
	if strings.Contains(p.stderr.String(), "sesame") {
		t.Error("the log has the password")
	}
	p.stopped()
}
