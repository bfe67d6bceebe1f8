package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/archive/sqlstore/sqlitetest"
	"sara/cmd/sara/internal/demo"
)

// The secret keys of command lines: SARA_SECRET_KEY, and one to change it to.
const (
	SecretKey        = "c2FyYS10ZXN0cy1uZWVkLTMyLWJ5dGVzLW9mLWtleSE="
	AnotherSecretKey = "YW5vdGhlci1rZXktb2YtdGhpcnR5LXR3by1ieXRlcyE="
)

// The members that --json prints.
const (
	KeyMembers      = "id name person_id scopes workspace from created_at expires_at last_used_at revoked_at"
	PropertyMembers = "id gsc_property domain slug display_name type permission_level starred archived healthy note workspace_id " +
		"connection_id created_at"
)

// A Run runs one command line, and returns the exit status.
type Run func(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int

// A CLI runs command lines in this process, on a database of their own.
type CLI struct {
	T        *testing.T
	Folder   string
	Env      []string
	Said     *strings.Builder // all output so far
	LastErrs string           // what the last command line wrote to standard error
	run      Run
}

// New returns a CLI whose database is empty and migrated.
func New(t *testing.T, run Run) *CLI {
	t.Helper()
	c := NewFresh(t, run)
	sqlitetest.Create(t, c.Path("sara.db"))
	return c
}

// NewFresh returns a CLI whose database does not exist yet.
func NewFresh(t *testing.T, run Run) *CLI {
	t.Helper()
	folder := t.TempDir()
	return &CLI{T: t, run: run, Folder: folder, Said: new(strings.Builder), Env: []string{
		"SARA_DATABASE_URL=sqlite:" + filepath.Join(folder, "sara.db"),
		"SARA_ARCHIVE_URL=" + filepath.Join(folder, "archive"),
		"SARA_SECRET_KEY=" + SecretKey,
		"SARA_COLLECT=off", "SARA_INSPECT=off", // tests count the upstream's calls
	}}
}

// Against points the command lines at a simulated Search Console and writes its credential files.
func (c *CLI) Against(people *demo.Users) *CLI {
	c.T.Helper()
	c.Env = append(c.Env, "SARA_UPSTREAM_URL="+people.URL, "SARA_OAUTH_TOKEN_URL="+people.URL+"/token")
	for name, credentials := range people.Credentials {
		c.Write(name+".json", string(credentials))
	}
	return c
}

// Write makes a file and returns its path.
func (c *CLI) Write(name, text string) string {
	c.T.Helper()
	path := c.Path(name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.T.Fatal(err)
	}
	return path
}

// Path returns the path of a file of the CLI.
func (c *CLI) Path(name string) string { return filepath.Join(c.Folder, name) }

// Run runs a command line whose input is empty.
func (c *CLI) Run(args ...string) (status int, stdout, stderr string) {
	c.T.Helper()
	var out, errs bytes.Buffer
	status = c.run(context.Background(), args, c.Env, strings.NewReader(""), &out, &errs)
	c.Said.Write(out.Bytes())
	c.Said.Write(errs.Bytes())
	return status, out.String(), errs.String()
}

// OK runs a command line that must succeed, and returns its output.
func (c *CLI) OK(args ...string) string {
	c.T.Helper()
	status, stdout, stderr := c.Run(args...)
	if status != 0 {
		c.T.Fatalf("sara %s: status %d\n%s", strings.Join(args, " "), status, stderr)
	}
	c.LastErrs = stderr
	return stdout
}

// Fails runs a command line that must fail with nothing on standard output and all of want on standard error.
func (c *CLI) Fails(wantStatus int, args []string, want ...string) {
	c.T.Helper()
	status, stdout, stderr := c.Run(args...)
	if status != wantStatus || stdout != "" {
		c.T.Errorf("sara %s: status %d and output %q, want status %d and none\n%s", strings.Join(args, " "), status, stdout, wantStatus, stderr)
	}
	for _, part := range want {
		if !strings.Contains(stderr, part) {
			c.T.Errorf("sara %s: the error lacks %q:\n%s", strings.Join(args, " "), part, stderr)
		}
	}
}

// Object runs a command line with --json, and returns the object that it prints, which must have exactly these members.
func (c *CLI) Object(members string, args ...string) map[string]any {
	c.T.Helper()
	var object map[string]any
	c.decode(&object, args)
	c.HasMembers(object, members)
	return object
}

// Array does the same for commands that print an array.
func (c *CLI) Array(members string, args ...string) []map[string]any {
	c.T.Helper()
	var array []map[string]any
	c.decode(&array, args)
	if array == nil {
		c.T.Fatalf("sara %s prints null, want an array", strings.Join(args, " "))
	}
	for _, object := range array {
		c.HasMembers(object, members)
	}
	return array
}

func (c *CLI) decode(into any, args []string) {
	c.T.Helper()
	text := c.OK(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), into); err != nil || strings.Count(text, "\n") != 1 {
		c.T.Fatalf("sara %s --json prints not one line of JSON (%v): %q", strings.Join(args, " "), err, text)
	}
}

// HasMembers checks that an object has exactly these members.
func (c *CLI) HasMembers(object map[string]any, members string) {
	c.T.Helper()
	want := strings.Fields(members)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, want) {
		c.T.Errorf("the object has the members %v, want %v", got, want)
	}
}

// ID returns the id of a printed object.
func (c *CLI) ID(object map[string]any) string {
	c.T.Helper()
	id, _ := object["id"].(string)
	if id == "" {
		c.T.Fatalf("there is no id in %v", object)
	}
	return id
}

// With returns the same command lines with more variables.
func (c *CLI) With(env ...string) *CLI {
	other := *c
	other.Env = append(c.Env[:len(c.Env):len(c.Env)], env...)
	return &other
}

// In returns the same command lines for a subtest.
func (c *CLI) In(t *testing.T) *CLI {
	other := *c
	other.T = t
	return &other
}

// Customer adds an account with one person, and returns a function that creates a key of that person.
func (c *CLI) Customer() (key func(name string) (text, id string)) {
	c.T.Helper()
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	return func(name string) (string, string) {
		made := c.Object(KeyMembers+" key", "key", "create", "ann@example.com", "--name", name)
		return made["key"].(string), made["id"].(string)
	}
}

// WithProperty adds the main property and returns its id.
func (c *CLI) WithProperty() string {
	c.T.Helper()
	c.OK("connection", "add", "Web", "--name", "shop", "--credentials", c.Path(demo.ShopConnection+".json"))
	return c.ID(c.Object(PropertyMembers, "property", "add", "shop", demo.SiteMain, "--slug", "shop"))
}

// Preflights are the command lines that run all checks.
func Preflights() [][]string {
	return [][]string{{"serve", "--check"}, {"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "error"}}
}

// Later opens the database of the CLI with a clock by which all leases of today have expired.
func (c *CLI) Later() *sqlstore.Store {
	c.T.Helper()
	return c.Open(func() time.Time { return time.Now().Add(time.Hour) })
}

// Open opens the database of the CLI until the test ends.
func (c *CLI) Open(now func() time.Time) *sqlstore.Store {
	c.T.Helper()
	store, err := sqlstore.Open(c.T.Context(), sqlstore.Config{URL: "sqlite:" + c.Path("sara.db"), Now: now})
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		if err := store.Close(); err != nil {
			c.T.Error(err)
		}
	})
	return store
}

// PropertyID returns the id of a property.
func (c *CLI) PropertyID(store *sqlstore.Store, slug string) string {
	c.T.Helper()
	p, err := store.Property(c.T.Context(), slug)
	if err != nil {
		c.T.Fatal(err)
	}
	return p.ID
}
