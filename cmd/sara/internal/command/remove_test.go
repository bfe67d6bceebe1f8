package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
)

const (
	removedMembers = "kind id name workspaces people connections properties keys archive_objects"
	auditMembers   = "id at actor action subject account_id details"
)

// archiveFiles counts the files of the local archive.
func archiveFiles(c *clitest.CLI) (n int) {
	c.T.Helper()
	err := filepath.WalkDir(c.Path("archive"), func(_ string, entry os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(entry.Name(), ".parquet") {
			n++
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		c.T.Fatal(err)
	}
	return n
}

func TestRemove(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", "shop.example", c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory))
	if n := archiveFiles(c); n != 2 {
		t.Fatalf("the archive has %d objects, want 2", n)
	}
	c.Fails(ExitError, []string{"property", "remove", "shop.example"}, `removes property "sc-domain:shop.example"`, "archived history", "--yes")
	c.Fails(ExitError, []string{"property", "remove", "other.example", "--yes"}, `there is no property "other.example"`, "sara property list")
	if removed := c.Object(removedMembers, "property", "remove", "shop.example", "--yes"); removed["name"] != clitest.ShopSite ||
		removed["archive_objects"] != 2.0 {
		t.Errorf("removed: %v", removed)
	}
	if n := archiveFiles(c); n != 0 {
		t.Errorf("the archive still has %d objects", n)
	}
	if swept := c.Array("id removed_at archive_objects error", "archive", "sweep"); len(swept) != 1 || swept[0]["archive_objects"] != 0.0 {
		t.Errorf("swept: %v", swept)
	}
	if removed := c.Object(removedMembers, "connection", "remove", "mine", "--yes"); removed["properties"] != 1.0 {
		t.Errorf("removed: %v", removed)
	}
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.OK("key", "create", "ann@example.com", "--name", "first")
	c.OK("key", "create", "ann@example.com", "--name", "second")
	if revoked := c.Array(clitest.KeyMembers, "person", "keys", "revoke", "ann@example.com"); len(revoked) != 2 {
		t.Errorf("revoked: %v", revoked)
	}
	c.OK("person", "remove", "ann@example.com", "--yes")
	c.OK("workspace", "remove", "Acme/Web", "--yes")
	c.OK("account", "remove", "Acme", "--yes")
	for _, list := range []string{"account", "workspace", "person", "connection", "property"} {
		if left := c.Array("", list, "list"); len(left) != 0 {
			t.Errorf("%s list: %v", list, left)
		}
	}
	log := c.Array(auditMembers, "audit", "list", "--limit", "2")
	if len(log) != 2 || log[0]["action"] != "account.remove" || !strings.HasPrefix(log[0]["actor"].(string), "cli:") {
		t.Errorf("audit log: %v", log)
	}
	c.Fails(ExitUsage, []string{"audit", "list", "--before", "account.remove"}, `--before "account.remove" is not a change id`)
	for _, id := range []string{c.ID(log[1]), strings.ToUpper(c.ID(log[1])), "{" + c.ID(log[1]) + "}"} {
		if next := c.Array(auditMembers, "audit", "list", "--before", id); len(next) < 10 || next[0]["action"] == "account.remove" {
			t.Errorf("the next page after %s: %v", id, next)
		}
	}
	if future := c.Array(auditMembers, "audit", "list", "--since", "2999-01-01"); len(future) != 0 {
		t.Errorf("since 2999: %v", future)
	}
	removed := log[0]["account_id"].(string)
	for since, want := range map[string]int{"2000-01-01": 2, "2999-01-01": 0} {
		if of := c.Array(auditMembers, "audit", "list", "--account", removed, "--since", since, "--limit", "2"); len(of) != want {
			t.Errorf("of the removed account, since %s: %v", since, of)
		}
	}
	c.Fails(ExitError, []string{"audit", "list", "--account", "Acme"}, `there is no account "Acme"`, "sara account list")
	c.Fails(ExitUsage, []string{"audit", "list", "--limit", "0"}, "--limit 0")
}

// What is written while a property is removed is deleted by the next collection, also where servers do not collect.
func TestCollectErasesRemovedProperties(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", "shop.example", c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory))
	late := clitest.ArchivedObjects(t, c.Path("archive"))
	c.OK("connection", "remove", "mine", "--yes") // with the properties
	for name, object := range late {
		c.Write(filepath.Join("archive", name), object)
	}
	c.OK("collect")
	if n := archiveFiles(c); n != 0 || !strings.Contains(c.LastErrs, "deleted 2 objects of the archived history of the removed property") {
		t.Errorf("%d files are left, and it says:\n%s", n, c.LastErrs)
	}
}

func TestKeyRotate(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	newKey := c.Customer()
	text, id := newKey("first")
	rotated := c.Object(clitest.KeyMembers+" key", "key", "rotate", id)
	if rotated["name"] != "first" || rotated["key"] == text || rotated["revoked_at"] != nil {
		t.Errorf("rotated: %v", rotated)
	}
	keys := c.Array(clitest.KeyMembers, "key", "list", "ann@example.com")
	ends, err := time.Parse(time.RFC3339, keys[0]["revoked_at"].(string))
	if left := time.Until(ends); err != nil || left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the old key ends in %v: %v", left, err)
	}
	c.Fails(ExitError, []string{"key", "rotate", id}, "already been rotated")
	c.Fails(ExitUsage, []string{"key", "rotate", id, "--overlap", "31d"}, "--overlap")
	c.Fails(ExitUsage, []string{"key", "rotate", id, "--overlap", "721h"}, "--overlap 721h0m0s is not a time of 0s to 720h0m0s")
}

func TestKeyAddresses(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Customer()
	create := []string{"key", "create", "ann@example.com", "--name", "office", "--from"}
	made := c.Object(clitest.KeyMembers+" key", append(create, "192.0.2.0/24", "--from", "2001:db8::7")...)
	id := made["id"].(string)
	wantFrom := func(got map[string]any, want ...any) {
		t.Helper()
		if from, _ := got["from"].([]any); !slices.Equal(from, want) {
			t.Errorf("allowed from %v, want %v", got["from"], want)
		}
	}
	wantFrom(made, "192.0.2.0/24", "2001:db8::7/128")
	wantFrom(c.Object(clitest.KeyMembers, "key", "update", id, "--from", "198.51.100.7,::ffff:203.0.113.0/120"), "198.51.100.7/32", "203.0.113.0/24")
	if rows := columns(c.OK("key", "list", "ann@example.com")); !slices.Contains(rows[0], "FROM") || !slices.Contains(rows[1], "203.0.113.0/24") {
		t.Errorf("listed as %q", rows)
	}
	rotated := c.Object(clitest.KeyMembers+" key", "key", "rotate", id)
	wantFrom(rotated, "198.51.100.7/32", "203.0.113.0/24")
	wantFrom(c.Object(clitest.KeyMembers, "key", "update", rotated["id"].(string), "--from", "any"))
	wantFrom(c.Array(clitest.KeyMembers, "key", "list", "ann@example.com")[1])
	log := c.Array(auditMembers, "audit", "list", "--limit", "3")
	if log[0]["action"] != "key.update" || log[1]["action"] != "key.rotate" || log[2]["action"] != "key.update" {
		t.Errorf("recorded as %v", log)
	}
	wantFrom(log[0]["details"].(map[string]any))
	wantFrom(log[2]["details"].(map[string]any), "198.51.100.7/32", "203.0.113.0/24")

	c.Fails(ExitUsage, append(create, "192.0.2.7/24"), "--from: 192.0.2.7/24 has bits beyond its prefix")
	c.Fails(ExitUsage, append(create, "office"), `--from: "office" is not a network such as 192.0.2.0/24`)
	c.Fails(ExitUsage, []string{"key", "update", id, "--from", "any", "--from", "192.0.2.7"}, `--from: "any" is not a network`)
	c.Fails(ExitUsage, []string{"key", "update", id}, "--from")
	c.Fails(ExitUsage, []string{"key", "update", id, "--from", ""}, "--from", "it is empty")
	c.Fails(ExitError, []string{"key", "update", "nothing", "--from", "any"}, `there is no key "nothing"`)
}
