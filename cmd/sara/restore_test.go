package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sara/archive/bucket/s3test"
	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
)

// The restore drill of deploy/README.md: PostgreSQL and the object store are backed up, destroyed and restored. Then the archive
// verifies, and a new server answers as before: keys are valid, and the credentials of the connection are decrypted.
func testRestoreDrill(t *testing.T, binary string, server *pgtest.Server) {
	objects := s3test.Start(t)
	people, _ := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	location, database := objects.NewBucket(t), server.NewDatabase(t)
	c.Env = append(c.Env, "SARA_DATABASE_URL="+database, "SARA_ARCHIVE_URL="+location)
	newKey := c.Customer()
	c.WithProperty()
	c.OK("archive", "import", "shop", c.Write("history.csv", clitest.CSVHeader+clitest.SomeHistory))
	key, _ := newKey("drill")
	before := answers(c, binary, key)

	dump := server.Dump(t, database)
	folder, backup := objects.Folder(t, location), filepath.Join(t.TempDir(), "backup")
	copyFolder(t, folder, backup)
	server.Drop(t, database)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}

	server.Restore(t, dump)
	if status, table, _ := c.Run("archive", "verify"); status != command.ExitError {
		t.Fatalf("the archive verifies without its objects:\n%s", table)
	}
	copyFolder(t, backup, folder)
	c.OK("archive", "verify")
	if after := answers(c, binary, key); !slices.Equal(after, before) {
		t.Errorf("before: %s\nafter: %s", before, after)
	}

	// The same by sara's own commands, into another database and another bucket.
	c.OK("backup", c.Path("backup"))
	elsewhere := c.With("SARA_DATABASE_URL="+server.NewDatabase(t), "SARA_ARCHIVE_URL="+objects.NewBucket(t))
	elsewhere.OK("restore", c.Path("backup"))
	elsewhere.OK("archive", "verify")
	if after := answers(elsewhere, binary, key); !slices.Equal(after, before) {
		t.Errorf("before: %s\nafter sara restore: %s", before, after)
	}
	elsewhere.Fails(command.ExitError, []string{"restore", c.Path("backup")}, "--force")
	elsewhere.OK("restore", c.Path("backup"), "--force")
	elsewhere.OK("archive", "verify")
}

// A server that has the file of SQLite open would go on with the old one, and what it writes would be lost.
func testRestoreBesideServer(t *testing.T, binary string) {
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	if err := os.Mkdir(c.Path("archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.OK("backup", c.Path("backup"))
	restore := []string{"restore", c.Path("backup"), "--force"}
	p, _, _ := serving(t, binary, c.Env)
	c.Fails(command.ExitError, restore, "SARA_DATABASE_URL: "+c.Path("sara.db")+": another process uses it: stop all servers first")
	c.OK("account", "add", "Bob", "--plan", "pro") // it still serves, and its locks are in place
	c.Fails(command.ExitError, restore, "another process uses it")
	p.stopped()
	c.OK(restore...)
}

// A server would refuse all keys while the tables are replaced, so a restore into PostgreSQL names those that use it, with --force too.
func testRestoreBesideReplica(t *testing.T, binary string, server *pgtest.Server) {
	c := clitest.New(t, sara)
	if err := os.Mkdir(c.Path("archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	restore := []string{"restore", c.Path("backup"), "--force"}
	for _, database := range []string{server.NewDatabase(t), server.StartPooler(t)} {
		used := c.With("SARA_DATABASE_URL=" + database)
		used.OK("account", "add", "Acme", "--plan", "pro")
		if _, err := os.Stat(c.Path("backup")); err != nil {
			used.OK("backup", c.Path("backup"))
		}
		p, _, _ := serving(t, binary, used.Env)
		used.Fails(command.ExitError, restore, "SARA_DATABASE_URL: ", fmt.Sprintf("is in use by process %d on ", p.command.Process.Pid),
			": stop all servers first")
		used.OK("account", "add", "Bob", "--plan", "pro")
		p.stopped()
		used.OK(restore...)
		if list := used.OK("account", "list"); strings.Contains(list, "Bob") {
			t.Errorf("accounts after the restore: %s", list)
		}
	}
}

// answers returns what a new server answers: a property, stored figures and live ones.
func answers(c *clitest.CLI, binary, key string) (bodies []string) {
	c.T.Helper()
	p, base, _ := serving(c.T, binary, c.Env)
	defer p.stopped()
	requestID := regexp.MustCompile(`"request_id":"[^"]*"`)
	for _, path := range []string{"", "/summary?start_date=2025-01-30&end_date=2025-02-02", "/queries?date_range=last_28d"} {
		a := clitest.WantStatus(c.T, 200, base+"/v1/properties/shop"+path, key)
		bodies = append(bodies, requestID.ReplaceAllString(a.Body, ""))
	}
	if !strings.Contains(bodies[1], `"source":"stored"`) || !strings.Contains(bodies[2], `"source":"live"`) {
		c.T.Errorf("the answers are not a stored and a live one: %s", bodies)
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
