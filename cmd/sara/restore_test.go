package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sara/archive/bucket/s3test"
	"sara/archive/sqlstore/pgtest"
)

// The restore drill of deploy/README.md: PostgreSQL and the object store are backed up, destroyed and restored. Then the archive
// verifies, and a new server answers as before: keys are valid, and the credentials of the connection are decrypted.
func testRestoreDrill(t *testing.T, binary string, server *pgtest.Server) {
	objects := s3test.Start(t)
	people, _ := simulate(t)
	c := newCLI(t).against(people)
	location, database := objects.NewBucket(t), server.NewDatabase(t)
	c.env = append(c.env, "SARA_DATABASE_URL="+database, "SARA_ARCHIVE_URL="+location)
	newKey := c.customer()
	c.withProperty()
	c.ok("archive", "import", "shop", c.write("history.csv", csvHeader+someHistory))
	key, _ := newKey("drill")
	before := c.answers(binary, key)

	dump := server.Dump(t, database)
	folder, backup := objects.Folder(t, location), filepath.Join(t.TempDir(), "backup")
	copyFolder(t, folder, backup)
	server.Drop(t, database)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}

	server.Restore(t, dump)
	if status, table, _ := c.run("archive", "verify"); status != exitError {
		t.Fatalf("the archive verifies without its objects:\n%s", table)
	}
	copyFolder(t, backup, folder)
	c.ok("archive", "verify")
	if after := c.answers(binary, key); !slices.Equal(after, before) {
		t.Errorf("before: %s\nafter: %s", before, after)
	}

	// The same by sara's own commands, into another database and another bucket.
	c.ok("backup", c.path("backup"))
	elsewhere := c.with("SARA_DATABASE_URL="+server.NewDatabase(t), "SARA_ARCHIVE_URL="+objects.NewBucket(t))
	elsewhere.ok("restore", c.path("backup"))
	elsewhere.ok("archive", "verify")
	if after := elsewhere.answers(binary, key); !slices.Equal(after, before) {
		t.Errorf("before: %s\nafter sara restore: %s", before, after)
	}
	elsewhere.fails(exitError, []string{"restore", c.path("backup")}, "--force")
	elsewhere.ok("restore", c.path("backup"), "--force")
	elsewhere.ok("archive", "verify")
}

// answers returns what a new server answers: a property, stored figures and live ones.
func (c *cli) answers(binary, key string) (bodies []string) {
	c.t.Helper()
	p, base, _ := serving(c.t, binary, c.env)
	defer p.stopped()
	requestID := regexp.MustCompile(`"request_id":"[^"]*"`)
	for _, path := range []string{"", "/summary?start_date=2025-01-30&end_date=2025-02-02", "/queries?date_range=last_28d"} {
		a := wantStatus(c.t, 200, base+"/v1/properties/shop"+path, key)
		bodies = append(bodies, requestID.ReplaceAllString(a.body, ""))
	}
	if !strings.Contains(bodies[1], `"source":"stored"`) || !strings.Contains(bodies[2], `"source":"live"`) {
		c.t.Errorf("the answers are not a stored and a live one: %s", bodies)
	}
	return bodies
}

// copyFolder copies files with their extended attributes.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "--archive", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
