package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/archive/sqlstore/sqlitetest"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

// secretKeyText is a good SARA_SECRET_KEY.
const secretKeyText = "c2FyYS10ZXN0cy1uZWVkLTMyLWJ5dGVzLW9mLWtleSE="

// sharedKey returns the private key that all simulated service accounts share, because making one takes long.
var sharedKey = sync.OnceValues(demo.NewKey)

// simulate starts a simulated Search Console with the users of the demo.
func simulate(t *testing.T) (*demo.Users, *gscsim.Server) {
	t.Helper()
	return simulateBehind(t, func(simulator http.Handler) http.Handler { return simulator })
}

// simulateBehind does so behind a handler.
func simulateBehind(t *testing.T, wrap func(http.Handler) http.Handler) (*demo.Users, *gscsim.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	c, err := demo.NewUsers(time.Now(), "http://"+server.Listener.Addr().String(), sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	simulator := gscsim.New(c.Simulation(time.Now))
	server.Config.Handler = wrap(simulator)
	server.Start()
	return c, simulator
}

// cli runs command lines in this process, on a database of their own.
type cli struct {
	t        *testing.T
	folder   string
	env      []string
	said     *strings.Builder // all output so far
	lastErrs string           // what the last command line wrote to standard error
}

// newCLI returns a cli whose database is empty and migrated.
func newCLI(t *testing.T) *cli {
	t.Helper()
	c := newFreshCLI(t)
	sqlitetest.Create(t, c.path("sara.db"))
	return c
}

// newFreshCLI returns a cli whose database does not exist yet.
func newFreshCLI(t *testing.T) *cli {
	t.Helper()
	folder := t.TempDir()
	return &cli{t: t, folder: folder, said: new(strings.Builder), env: []string{
		"SARA_DATABASE_URL=sqlite:" + filepath.Join(folder, "sara.db"),
		"SARA_ARCHIVE_URL=" + filepath.Join(folder, "archive"),
		"SARA_SECRET_KEY=" + secretKeyText,
		"SARA_COLLECT=off", "SARA_INSPECT=off", // tests count the upstream's calls
	}}
}

// against points the command lines at a simulated Search Console and writes its credential files.
func (c *cli) against(people *demo.Users) *cli {
	c.t.Helper()
	c.env = append(c.env, "SARA_UPSTREAM_URL="+people.URL, "SARA_OAUTH_TOKEN_URL="+people.URL+"/token")
	for name, credentials := range people.Credentials {
		c.write(name+".json", string(credentials))
	}
	return c
}

// write makes a file and returns its path.
func (c *cli) write(name, text string) string {
	c.t.Helper()
	path := c.path(name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *cli) path(name string) string { return filepath.Join(c.folder, name) }

func (c *cli) run(args ...string) (status int, stdout, stderr string) {
	c.t.Helper()
	var out, errs bytes.Buffer
	status = run(context.Background(), console.ProgramName, args, &out, &errs, c.env)
	c.said.Write(out.Bytes())
	c.said.Write(errs.Bytes())
	return status, out.String(), errs.String()
}

// ok runs a command line that must succeed, and returns its output.
func (c *cli) ok(args ...string) string {
	c.t.Helper()
	status, stdout, stderr := c.run(args...)
	if status != exitOK {
		c.t.Fatalf("sara %s: status %d\n%s", strings.Join(args, " "), status, stderr)
	}
	c.lastErrs = stderr
	return stdout
}

// fails runs a command line that must fail with nothing on standard output and all of want on standard error.
func (c *cli) fails(wantStatus int, args []string, want ...string) {
	c.t.Helper()
	status, stdout, stderr := c.run(args...)
	if status != wantStatus || stdout != "" {
		c.t.Errorf("sara %s: status %d and output %q, want status %d and none\n%s", strings.Join(args, " "), status, stdout, wantStatus, stderr)
	}
	for _, part := range want {
		if !strings.Contains(stderr, part) {
			c.t.Errorf("sara %s: the error lacks %q:\n%s", strings.Join(args, " "), part, stderr)
		}
	}
}

// object runs a command line with --json, and returns the object that it prints, which must have exactly these members.
func (c *cli) object(members string, args ...string) map[string]any {
	c.t.Helper()
	var object map[string]any
	c.decode(&object, args)
	c.hasMembers(object, members)
	return object
}

// array does the same for commands that print an array.
func (c *cli) array(members string, args ...string) []map[string]any {
	c.t.Helper()
	var array []map[string]any
	c.decode(&array, args)
	if array == nil {
		c.t.Fatalf("sara %s prints null, want an array", strings.Join(args, " "))
	}
	for _, object := range array {
		c.hasMembers(object, members)
	}
	return array
}

func (c *cli) decode(into any, args []string) {
	c.t.Helper()
	text := c.ok(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), into); err != nil || strings.Count(text, "\n") != 1 {
		c.t.Fatalf("sara %s --json prints not one line of JSON (%v): %q", strings.Join(args, " "), err, text)
	}
}

func (c *cli) hasMembers(object map[string]any, members string) {
	c.t.Helper()
	want := strings.Fields(members)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, want) {
		c.t.Errorf("the object has the members %v, want %v", got, want)
	}
}

// id returns the id of a printed object.
func (c *cli) id(object map[string]any) string {
	c.t.Helper()
	id, _ := object["id"].(string)
	if id == "" {
		c.t.Fatalf("there is no id in %v", object)
	}
	return id
}

// columns returns the words of a table's lines, so that tests do not depend on its spaces.
func columns(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}
