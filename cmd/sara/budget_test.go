package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
	"sara/policy/redistest"
)

// usageToday returns how many requests the account of the key has made today. The request that reads it counts too.
func usageToday(t *testing.T, base, key string) int {
	t.Helper()
	var me struct {
		Data struct {
			Usage struct {
				RequestsToday int `json:"requests_today"`
			} `json:"usage"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(clitest.WantStatus(t, http.StatusOK, base+"/v1/me", key).Body), &me); err != nil {
		t.Fatal(err)
	}
	return me.Data.Usage.RequestsToday
}

// Two processes share every limit through Redis, see a revoked key within a second although it is in constant use, and keep
// serving without Redis.
func testReplicas(t *testing.T, binary string) {
	server := redistest.Single(t)
	c := clitest.New(t, sara)
	c.Env = append(c.Env, "SARA_REDIS_URL="+server.URL(), "SARA_REPLICAS=2")
	newKey := c.Customer()
	first, firstID := newKey("first")
	second, _ := newKey("second")
	one, base1, admin1 := serving(t, binary, c.Env)
	two, base2, _ := serving(t, binary, c.Env)

	// One after the other: package policy tests concurrent requests, where a busy machine does not count as an outage.
	admitted, begun := 0, time.Now()
	for i := range 40 {
		switch a := clitest.Get([]string{base1, base2}[i%2]+"/v1/me", first); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("request %d: %d %v", i, a.Status, a.Err)
		}
	}
	// The token bucket refills one request every three seconds.
	if most := 21 + int(time.Since(begun)/(3*time.Second)); admitted < 20 || admitted > most {
		t.Errorf("%d of forty requests over two processes are admitted, want 20 to %d", admitted, most)
	}
	if today := usageToday(t, base2, second); today != admitted+1 {
		t.Errorf("%d requests counted today, %d were admitted", today, admitted+1)
	}

	c.OK("key", "revoke", firstID)
	clitest.Poll(t, "a revoked key is refused", func() bool { return clitest.Get(base2+"/v1/me", first).Status == http.StatusUnauthorized })
	clitest.Poll(t, "it is by the other replica", func() bool { return clitest.Get(base1+"/v1/me", first).Status == http.StatusUnauthorized })
	for range 15 { // it stays refused, though it is in use all the time
		<-time.After(100 * time.Millisecond)
		clitest.WantStatus(t, http.StatusUnauthorized, base1+"/v1/me", first)
		clitest.WantStatus(t, http.StatusUnauthorized, base2+"/v1/me", first)
	}

	server.Kill()
	clitest.WantStatus(t, http.StatusOK, base1+"/v1/me", second)
	if a := clitest.WantStatus(t, http.StatusOK, admin1+"/readyz", ""); !strings.HasPrefix(a.Body, "degraded") {
		t.Errorf("without Redis /readyz says %q", a.Body)
	}
	server.Start()
	clitest.Poll(t, "Redis is used again", func() bool {
		return !strings.Contains(clitest.WantStatus(t, http.StatusOK, admin1+"/readyz", "").Body, "own share")
	})
	// Redis lost its data, but the replicas restore what each of them has counted, at the latest when its circuit closes.
	want := admitted + 3 // with the reading above, the request without Redis and this one
	for deadline := time.Now().Add(clitest.Hurry); ; want++ {
		if today := usageToday(t, base2, second); today == want {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d requests counted after Redis came back empty, want %d", today, want)
		}
		<-time.After(100 * time.Millisecond)
	}
	one.stopped()
	two.stopped()
	for _, k := range c.Array(clitest.KeyMembers, "key", "list", "ann@example.com") {
		if used, _ := k["last_used_at"].(string); !strings.HasSuffix(used, ":00:00Z") {
			t.Errorf("key %s was last used at %q", k["name"], used)
		}
	}
}

// A process without Redis keeps its counts across a restart, and logs that it serves alone.
func testRestartKeepsTheDay(t *testing.T, binary string) {
	c := clitest.New(t, sara)
	key, _ := c.Customer()("only")
	p, base, _ := serving(t, binary, c.Env)
	for want := 1; want <= 3; want++ {
		if today := usageToday(t, base, key); today != want {
			t.Errorf("%d requests counted today, want %d", today, want)
		}
	}
	p.signal(syscall.SIGTERM)
	if _, err := p.wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.stderr.String(), "SARA_REDIS_URL") {
		t.Errorf("the log does not warn that one process serves alone:\n%s", p.stderr)
	}
	p, base, _ = serving(t, binary, c.Env)
	if today := usageToday(t, base, key); today != 4 {
		t.Errorf("%d requests counted today after a restart, want 4", today)
	}
	p.stopped()
}
