package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sara/cmd/sara/internal/clitest"
)

// lists returns what a deployment has, as programs see it.
func lists(c *clitest.CLI) string {
	c.T.Helper()
	var all strings.Builder
	for _, list := range []string{"account list", "workspace list", "person list", "connection list", "property list", "key list --account Acme",
		"annotation list shop", "brand-terms list shop", "archive verify"} {
		all.WriteString(list + "\n" + c.OK(append(strings.Fields(list), "--json")...))
	}
	all.WriteString(c.OK("archive", "export", "shop", "--from", "2025-01-01", "--to", "2025-12-31", "--format", "csv"))
	return all.String()
}

// TestBackupAndRestore backs up SQLite and a folder while others write, and restores them elsewhere and over themselves.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	people, _ := clitest.Simulate(t)
	c := clitest.NewCollectCLI(t, sara, people)
	c.OK("person", "add", "Acme", "ann@acme.example", "--workspace", "Web")
	c.OK("key", "create", "ann@acme.example", "--name", "laptop")
	c.OK("annotation", "add", "shop", "--date", "2025-01-31", "--title", "Relaunch")
	c.OK("brand-terms", "set", "shop", "alder")
	c.OK("archive", "import", "shop", c.Write("history.csv", clitest.CSVHeader+clitest.SomeHistory))
	before := lists(c)

	folder := c.Path("backup")
	backUpWhileOthersWrite(c, folder)
	for _, secret := range []string{clitest.SecretKey, "BEGIN PRIVATE KEY", "GOCSPX-"} {
		if strings.Contains(c.LastErrs, secret) {
			t.Errorf("%q is printed", secret)
		}
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "manifest.json": 0o600, "database.jsonl.gz": 0o600, "SHA256SUMS": 0o600} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s of the backup: %v, %v", name, info, err)
		}
	}
	c.Fails(ExitError, []string{"backup", folder}, "is not empty: name a new folder")

	elsewhere := clitest.NewFresh(t, sara).Against(people)
	if status, stdout, stderr := elsewhere.Run("restore", folder, "--json"); status != ExitOK || !strings.Contains(stdout, `"archive_objects":`) {
		t.Fatalf("restore: status %d\n%s%s", status, stdout, stderr)
	}
	if after := lists(elsewhere); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	elsewhere.OK("property", "import", "mine") // its credentials open

	c.Fails(ExitError, []string{"restore", folder}, "SARA_ARCHIVE_URL: ", "restore into an empty archive, or repeat the command with --force")
	c.With("SARA_ARCHIVE_URL="+c.Path("empty")).Fails(ExitError, []string{"restore", folder}, "SARA_DATABASE_URL: ",
		"has accounts: restore into an empty database, or repeat the command with --force")
	c.OK("property", "remove", "shop", "--yes")
	c.OK("restore", folder, "--force")
	if !strings.Contains(c.LastErrs, "sara.db.before-restore-") {
		t.Errorf("it does not name the database that it replaced:\n%s", c.LastErrs)
	}
	if after := lists(c); after != before {
		t.Errorf("before:\n%s\nafter a forced restore:\n%s", before, after)
	}
}

// testdata/backup-16 is a backup of a version with schema 16. It restores, its credentials open, and commands show and change what that
// version wrote.
func TestBackupOfAnOldVersion(t *testing.T) {
	t.Parallel()
	people, _ := clitest.Simulate(t)
	c := clitest.NewFresh(t, sara).Against(people)
	c.OK("restore", "testdata/backup-16")
	got := lists(c) + c.OK("page-groups", "list", "shop", "--json") + c.OK("audit", "list", "--account", "Acme", "--json")
	const want = "testdata/backup-16.txt"
	if *update {
		if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(want); err != nil || got != string(text) {
		t.Errorf("%s (%v):\n%s", want, err, got)
	}
	c.Fails(ExitError, []string{"property", "import", "google"}, "invalid_client") // its credentials are sent
	c.OK("archive", "import", "shop", c.Write("history.csv", clitest.CSVHeader+"2025-11-02,total,,1,2,3\n"))
	month := c.OK("archive", "export", "shop", "--from", "2025-11-01", "--to", "2025-11-30", "--format", "csv")
	if !strings.Contains(month, "2025-11-01,total,") || !strings.Contains(month, "2025-11-02,total,,1,2,3") {
		t.Errorf("after an import into an old month:\n%s", month)
	}
}

// Who backs up before an update may already run the new version: if it migrated the database, the version before could not restore the backup.
func TestBackupDoesNotMigrate(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	if err := os.Mkdir(c.Path("archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	execSQL(t, c, "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
	c.Fails(ExitError, []string{"backup", c.Path("backup")}, "the database has schema version ", "back it up with the version of sara that serves it")
	if _, err := os.Stat(c.Path("backup")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the backup: %v", err)
	}
}

// backUpWhileOthersWrite annotates another property meanwhile: writers neither wait for a backup, nor fail it.
func backUpWhileOthersWrite(c *clitest.CLI, folder string) {
	c.T.Helper()
	stop := make(chan struct{})
	var writing sync.WaitGroup
	started := make(chan struct{})
	other := c.With()
	other.Said = new(strings.Builder)
	writing.Go(func() {
		for first := true; ; first = false {
			if status, _, stderr := other.Run("annotation", "add", "prefix", "--date", "2025-01-31", "--title", "written meanwhile"); status != ExitOK {
				c.T.Errorf("a change during the backup: status %d\n%s", status, stderr)
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
	record := c.Object("folder created_at database schema rows archive_objects archive_bytes secret_keys", "backup", folder)
	close(stop)
	writing.Wait()
	if record["database"] != "SQLite" || record["archive_objects"] == 0.0 || len(record["secret_keys"].([]any)) != 1 {
		c.T.Errorf("backed up %v", record)
	}
	if !strings.Contains(c.LastErrs, "the secret key is not in the backup") {
		c.T.Errorf("it does not say where the secret key is:\n%s", c.LastErrs)
	}
}

func TestDamagedBackupsAreRefused(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	if err := os.Mkdir(c.Path("archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.OK("backup", c.Path("backup"))
	c.Fails(ExitError, []string{"restore", c.Path("nowhere")}, "open the folder of the backup", "nowhere")
	c.Fails(ExitError, []string{"restore", c.Folder}, "it has no manifest.json")
	c.With("SARA_ARCHIVE_URL="+c.Path("nowhere")).Fails(ExitError, []string{"backup", c.Path("other")}, "SARA_ARCHIVE_URL: there is no folder")
	damage := func(name string, change func(string) string, want string) {
		t.Helper()
		text, err := os.ReadFile(c.Path("backup/" + name))
		if err != nil {
			t.Fatal(err)
		}
		c.Write("backup/"+name, change(string(text)))
		c.Fails(ExitError, []string{"restore", c.Path("backup"), "--force"}, want)
		c.Write("backup/"+name, string(text))
	}
	damage("database.jsonl.gz", func(s string) string { return s[:len(s)-1] }, "database.jsonl.gz is damaged")
	damage("SHA256SUMS", strings.ToUpper, "SHA256SUMS is damaged")
	damage("manifest.json", func(s string) string { return strings.Replace(s, `"format": 1`, `"format": 2`, 1) }, "it has the format 2")
	damage("manifest.json", func(s string) string { return s[:10] }, "manifest.json: ")
	c.OK("restore", c.Path("backup"), "--force")
	if list := c.Array(accountMembers, "account", "list"); len(list) != 1 {
		t.Errorf("accounts: %v", list)
	}
}
