package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// lists returns what a deployment has, as programs see it.
func (c *cli) lists() string {
	c.t.Helper()
	var all strings.Builder
	for _, list := range []string{"account list", "workspace list", "person list", "connection list", "property list", "key list --account Acme",
		"annotation list shop", "brand-terms list shop", "archive verify"} {
		all.WriteString(list + "\n" + c.ok(append(strings.Fields(list), "--json")...))
	}
	all.WriteString(c.ok("archive", "export", "shop", "--from", "2025-01-01", "--to", "2025-12-31", "--format", "csv"))
	return all.String()
}

// TestBackupAndRestore backs up SQLite and a folder while others write, and restores them elsewhere and over themselves.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	people, _ := simulate(t)
	c := newCollectCLI(t, people)
	c.ok("person", "add", "Acme", "ann@acme.example", "--workspace", "Web")
	c.ok("key", "create", "ann@acme.example", "--name", "laptop")
	c.ok("annotation", "add", "shop", "--date", "2025-01-31", "--title", "Relaunch")
	c.ok("brand-terms", "set", "shop", "alder")
	c.ok("archive", "import", "shop", c.write("history.csv", csvHeader+someHistory))
	before := c.lists()

	folder := c.path("backup")
	c.backUpWhileOthersWrite(folder)
	for _, secret := range []string{secretKeyText, "BEGIN PRIVATE KEY", "GOCSPX-"} {
		if strings.Contains(c.lastErrs, secret) {
			t.Errorf("%q is printed", secret)
		}
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "manifest.json": 0o600, "database.jsonl.gz": 0o600, "SHA256SUMS": 0o600} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s of the backup: %v, %v", name, info, err)
		}
	}
	c.fails(exitError, []string{"backup", folder}, "is not empty: name a new folder")

	elsewhere := newFreshCLI(t).against(people)
	if status, stdout, stderr := elsewhere.run("restore", folder, "--json"); status != exitOK || !strings.Contains(stdout, `"archive_objects":`) {
		t.Fatalf("restore: status %d\n%s%s", status, stdout, stderr)
	}
	if after := elsewhere.lists(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	elsewhere.ok("property", "import", "mine") // its credentials open

	c.fails(exitError, []string{"restore", folder}, "SARA_ARCHIVE_URL: ", "restore into an empty archive, or repeat the command with --force")
	c.with("SARA_ARCHIVE_URL="+c.path("empty")).fails(exitError, []string{"restore", folder}, "SARA_DATABASE_URL: ", "has accounts: restore into an empty database, or repeat the command with --force")
	c.ok("property", "remove", "shop", "--yes")
	c.ok("restore", folder, "--force")
	if !strings.Contains(c.lastErrs, "sara.db.before-restore-") {
		t.Errorf("it does not name the database that it replaced:\n%s", c.lastErrs)
	}
	if after := c.lists(); after != before {
		t.Errorf("before:\n%s\nafter a forced restore:\n%s", before, after)
	}
}

// backUpWhileOthersWrite annotates another property meanwhile: writers neither wait for a backup, nor fail it.
func (c *cli) backUpWhileOthersWrite(folder string) {
	c.t.Helper()
	stop := make(chan struct{})
	var writing sync.WaitGroup
	started := make(chan struct{})
	writing.Go(func() {
		for first := true; ; first = false {
			other := &cli{t: c.t, folder: c.folder, env: c.env, said: new(strings.Builder)}
			if status, _, stderr := other.run("annotation", "add", "prefix", "--date", "2025-01-31", "--title", "written meanwhile"); status != exitOK {
				c.t.Errorf("a change during the backup: status %d\n%s", status, stderr)
			}
			if first {
				close(started)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-started
	record := c.object("folder created_at database schema rows archive_objects archive_bytes secret_keys", "backup", folder)
	close(stop)
	writing.Wait()
	if record["database"] != "SQLite" || record["archive_objects"] == 0.0 || len(record["secret_keys"].([]any)) != 1 {
		c.t.Errorf("backed up %v", record)
	}
	if !strings.Contains(c.lastErrs, "the secret key is not in the backup") {
		c.t.Errorf("it does not say where the secret key is:\n%s", c.lastErrs)
	}
}

func TestDamagedBackupsAreRefused(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.ok("account", "add", "Acme", "--plan", "pro")
	if err := os.Mkdir(c.path("archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.ok("backup", c.path("backup"))
	c.fails(exitError, []string{"restore", c.path("nowhere")}, "nowhere")
	c.fails(exitError, []string{"restore", c.folder}, "it has no manifest.json")
	c.with("SARA_ARCHIVE_URL="+c.path("nowhere")).fails(exitError, []string{"backup", c.path("other")}, "SARA_ARCHIVE_URL: there is no folder")
	damage := func(name string, change func(string) string, want string) {
		t.Helper()
		text, err := os.ReadFile(c.path("backup/" + name))
		if err != nil {
			t.Fatal(err)
		}
		c.write("backup/"+name, change(string(text)))
		c.fails(exitError, []string{"restore", c.path("backup"), "--force"}, want)
		c.write("backup/"+name, string(text))
	}
	damage("database.jsonl.gz", func(s string) string { return s[:len(s)-1] }, "database.jsonl.gz is damaged")
	damage("SHA256SUMS", strings.ToUpper, "SHA256SUMS is damaged")
	damage("manifest.json", func(s string) string { return strings.Replace(s, `"format": 1`, `"format": 2`, 1) }, "it has the format 2")
	damage("manifest.json", func(s string) string { return s[:10] }, "manifest.json: ")
	c.ok("restore", c.path("backup"), "--force")
	if list := c.array(accountMembers, "account", "list"); len(list) != 1 {
		t.Errorf("accounts: %v", list)
	}
}
