package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/policy/redistest"
)

// Two processes on PostgreSQL and Redis obey, although the keys are in constant use.
func testRemoveTakesEffect(t *testing.T, binary string, database *pgtest.Server) {
	server := redistest.Single(t)
	people, _ := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	c.Env = append(c.Env, "SARA_REDIS_URL="+server.URL(), "SARA_REPLICAS=2", "SARA_DATABASE_URL="+database.NewDatabase(t))
	newKey := c.Customer()
	c.WithProperty()
	old, id := newKey("first")
	one, base1, _ := serving(t, binary, c.Env)
	two, base2, _ := serving(t, binary, c.Env)
	becomes := func(want int, path, key string) {
		t.Helper()
		for _, base := range []string{base1, base2} {
			clitest.Poll(t, fmt.Sprintf("GET %s answers %d", path, want), func() bool { return clitest.Get(base+path, key).Status == want })
		}
	}
	const summary = "/v1/properties/shop/summary?date_range=last_28d"
	clitest.WantStatus(t, http.StatusOK, base1+summary, old)
	clitest.WantStatus(t, http.StatusOK, base2+summary, old)
	current := c.Object(clitest.KeyMembers+" key", "key", "rotate", id, "--overlap", "0s")["key"].(string)
	becomes(http.StatusUnauthorized, "/v1/me", old)
	if a := clitest.Get(base1+"/v1/me", old); !strings.Contains(a.Body, "API_KEY_REVOKED") {
		t.Errorf("the old key: %s", a.Body)
	}
	clitest.WantStatus(t, http.StatusOK, base2+summary, current)
	c.OK("connection", "remove", "shop", "--yes")
	becomes(http.StatusNotFound, summary, current)
	c.OK("account", "remove", "Acme", "--yes")
	becomes(http.StatusUnauthorized, "/v1/me", current)
	one.stopped()
	two.stopped()
}
