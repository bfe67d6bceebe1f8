package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore/pgtest"
	"sara/policy/redistest"
)

const (
	removedMembers = "kind id name workspaces people connections properties keys archive_objects"
	auditMembers   = "id at actor action subject account_id details"
)

// archiveFiles counts the files of the local archive.
func (c *cli) archiveFiles() (n int) {
	c.t.Helper()
	err := filepath.WalkDir(c.path("archive"), func(_ string, entry os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(entry.Name(), ".parquet") {
			n++
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return n
}

func TestRemove(t *testing.T) {
	t.Parallel()
	c := newArchiveCLI(t)
	c.ok("archive", "import", "shop.example", c.write("all.csv", csvHeader+someHistory))
	if n := c.archiveFiles(); n != 2 {
		t.Fatalf("the archive has %d objects, want 2", n)
	}
	c.fails(exitError, []string{"property", "remove", "shop.example"}, `removes property "sc-domain:shop.example"`, "archived history", "--yes")
	c.fails(exitError, []string{"property", "remove", "other.example", "--yes"}, `there is no property "other.example"`, "sara property list")
	if removed := c.object(removedMembers, "property", "remove", "shop.example", "--yes"); removed["name"] != shopSite || removed["archive_objects"] != 2.0 {
		t.Errorf("removed: %v", removed)
	}
	if n := c.archiveFiles(); n != 0 {
		t.Errorf("the archive still has %d objects", n)
	}
	if swept := c.array("id removed_at archive_objects error", "archive", "sweep"); len(swept) != 1 || swept[0]["archive_objects"] != 0.0 {
		t.Errorf("swept: %v", swept)
	}
	if removed := c.object(removedMembers, "connection", "remove", "mine", "--yes"); removed["properties"] != 1.0 {
		t.Errorf("removed: %v", removed)
	}
	c.ok("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.ok("key", "create", "ann@example.com", "--name", "first")
	c.ok("key", "create", "ann@example.com", "--name", "second")
	if revoked := c.array(keyMembers, "person", "keys", "revoke", "ann@example.com"); len(revoked) != 2 {
		t.Errorf("revoked: %v", revoked)
	}
	c.ok("person", "remove", "ann@example.com", "--yes")
	c.ok("workspace", "remove", "Acme/Web", "--yes")
	c.ok("account", "remove", "Acme", "--yes")
	for _, list := range []string{"account", "workspace", "person", "connection", "property"} {
		if left := c.array("", list, "list"); len(left) != 0 {
			t.Errorf("%s list: %v", list, left)
		}
	}
	log := c.array(auditMembers, "audit", "list", "--limit", "2")
	if len(log) != 2 || log[0]["action"] != "account.remove" || !strings.HasPrefix(log[0]["actor"].(string), "cli:") {
		t.Errorf("audit log: %v", log)
	}
	if next := c.array(auditMembers, "audit", "list", "--before", c.id(log[1])); len(next) < 10 || next[0]["action"] == "account.remove" {
		t.Errorf("the next page: %v", next)
	}
	if future := c.array(auditMembers, "audit", "list", "--since", "2999-01-01"); len(future) != 0 {
		t.Errorf("since 2999: %v", future)
	}
	c.fails(exitUsage, []string{"audit", "list", "--limit", "0"}, "--limit 0")
}

func TestKeyRotate(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	newKey := c.customer()
	text, id := newKey("first")
	rotated := c.object(keyMembers+" key", "key", "rotate", id)
	if rotated["name"] != "first" || rotated["key"] == text || rotated["revoked_at"] != nil {
		t.Errorf("rotated: %v", rotated)
	}
	keys := c.array(keyMembers, "key", "list", "ann@example.com")
	ends, err := time.Parse(time.RFC3339, keys[0]["revoked_at"].(string))
	if left := time.Until(ends); err != nil || left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the old key ends in %v: %v", left, err)
	}
	c.fails(exitError, []string{"key", "rotate", id}, "rotated already")
	c.fails(exitUsage, []string{"key", "rotate", id, "--overlap", "31d"}, "--overlap")
	c.fails(exitUsage, []string{"key", "rotate", id, "--overlap", "721h"}, "--overlap 721h0m0s is not a time of 0s to 720h0m0s")
}

func TestKeyAddresses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.customer()
	create := []string{"key", "create", "ann@example.com", "--name", "office", "--from"}
	made := c.object(keyMembers+" key", append(create, "192.0.2.0/24", "--from", "2001:db8::7")...)
	id := made["id"].(string)
	wantFrom := func(got map[string]any, want ...any) {
		t.Helper()
		if from, _ := got["from"].([]any); !slices.Equal(from, want) {
			t.Errorf("allowed from %v, want %v", got["from"], want)
		}
	}
	wantFrom(made, "192.0.2.0/24", "2001:db8::7/128")
	wantFrom(c.object(keyMembers, "key", "update", id, "--from", "198.51.100.7,::ffff:203.0.113.0/120"), "198.51.100.7/32", "203.0.113.0/24")
	if rows := columns(c.ok("key", "list", "ann@example.com")); !slices.Contains(rows[0], "FROM") || !slices.Contains(rows[1], "203.0.113.0/24") {
		t.Errorf("listed as %q", rows)
	}
	rotated := c.object(keyMembers+" key", "key", "rotate", id)
	wantFrom(rotated, "198.51.100.7/32", "203.0.113.0/24")
	wantFrom(c.object(keyMembers, "key", "update", rotated["id"].(string), "--from", "any"))
	wantFrom(c.array(keyMembers, "key", "list", "ann@example.com")[1])
	log := c.array(auditMembers, "audit", "list", "--limit", "3")
	if log[0]["action"] != "key.update" || log[1]["action"] != "key.rotate" || log[2]["action"] != "key.update" {
		t.Errorf("recorded as %v", log)
	}
	wantFrom(log[0]["details"].(map[string]any))
	wantFrom(log[2]["details"].(map[string]any), "198.51.100.7/32", "203.0.113.0/24")

	c.fails(exitError, append(create, "192.0.2.7/24"), "--from: 192.0.2.7/24 has bits beyond its prefix")
	c.fails(exitError, append(create, "office"), `--from: "office" is not a network such as 192.0.2.0/24`)
	c.fails(exitError, []string{"key", "update", id, "--from", "any", "--from", "192.0.2.7"}, `--from: "any" is not a network`)
	c.fails(exitUsage, []string{"key", "update", id}, "--from")
	c.fails(exitError, []string{"key", "update", "nothing", "--from", "any"}, `there is no key "nothing"`)
}

// Two processes on PostgreSQL and Redis obey, although the keys are in constant use.
func testRemoveTakesEffect(t *testing.T, binary string, database *pgtest.Server) {
	server := redistest.Single(t)
	people, _ := simulate(t)
	c := newCLI(t).against(people)
	c.env = append(c.env, "SARA_REDIS_URL="+server.URL(), "SARA_REPLICAS=2", "SARA_DATABASE_URL="+database.NewDatabase(t))
	newKey := c.customer()
	c.withProperty()
	old, id := newKey("first")
	one, base1, _ := serving(t, binary, c.env)
	two, base2, _ := serving(t, binary, c.env)
	becomes := func(want int, path, key string) {
		t.Helper()
		for _, base := range []string{base1, base2} {
			poll(t, fmt.Sprintf("GET %s answers %d", path, want), func() bool { return get(base+path, key).status == want })
		}
	}
	const summary = "/v1/properties/shop/summary?date_range=last_28d"
	wantStatus(t, http.StatusOK, base1+summary, old)
	wantStatus(t, http.StatusOK, base2+summary, old)
	current := c.object(keyMembers+" key", "key", "rotate", id, "--overlap", "0s")["key"].(string)
	becomes(http.StatusUnauthorized, "/v1/me", old)
	if a := get(base1+"/v1/me", old); !strings.Contains(a.body, "API_KEY_REVOKED") {
		t.Errorf("the old key: %s", a.body)
	}
	wantStatus(t, http.StatusOK, base2+summary, current)
	c.ok("connection", "remove", "shop", "--yes")
	becomes(http.StatusNotFound, summary, current)
	c.ok("account", "remove", "Acme", "--yes")
	becomes(http.StatusUnauthorized, "/v1/me", current)
	one.stopped()
	two.stopped()
}
