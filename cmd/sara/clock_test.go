package main

import (
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
)

// A process with a moved clock decides by it: a plan that ended yesterday is still in force two days ago.
func testClock(t *testing.T, binary string) {
	c := clitest.New(t, sara)
	c.OK("account", "add", "acme", "--plan", "pro")
	c.OK("workspace", "add", "acme", "main")
	c.OK("person", "add", "acme", "ann@acme.example", "--workspace", "main")
	key := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@acme.example", "--name", "laptop")["key"].(string)
	c.OK("account", "plan", "acme", "pro", "--until", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly))
	_, base, _ := serving(t, binary, c.Env)
	clitest.WantStatus(t, 403, base+"/v1/properties", key)
	p, base, admin := serving(t, binary, append(c.Env, "SARA_CLOCK_OFFSET=-48h"))
	clitest.WantStatus(t, 200, base+"/v1/properties", key)
	const note = "SARA_CLOCK_OFFSET moves the clock by -48h0m0s, which is for tests only"
	if body := clitest.WantStatus(t, 200, admin+"/readyz", "").Body; body != "degraded: "+note+"\n" {
		t.Errorf("/readyz answers %q", body)
	}
	if !strings.Contains(p.stderr.String(), note) {
		t.Errorf("no warning of the clock in\n%s", p.stderr)
	}
}
