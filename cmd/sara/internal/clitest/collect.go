package clitest

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

// WatchedSimulator is a simulated Search Console that counts calls.
type WatchedSimulator struct {
	*gscsim.Server
	People *demo.Users

	mu    sync.Mutex
	left  int    // queries until after
	after func() // nil: no step to wait for
}

// SimulateWatched is Simulate without quotas, which the tests would exceed.
func SimulateWatched(t *testing.T) *WatchedSimulator {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	people, err := demo.NewUsers(time.Now(), "http://"+server.Listener.Addr().String(), SharedKey)
	if err != nil {
		t.Fatal(err)
	}
	config := people.Simulation(time.Now)
	config.Quotas.SearchPerMinute = -1
	w := &WatchedSimulator{Server: gscsim.New(config), People: people}
	server.Config.Handler = w
	server.Start()
	return w
}

// AfterQueries calls f at the nth query from now.
func (w *WatchedSimulator) AfterQueries(n int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.after = n, f
}

func (w *WatchedSimulator) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
		w.mu.Lock()
		w.left--
		if w.after != nil && w.left == 0 {
			w.after()
		}
		w.mu.Unlock()
	}
	w.Server.ServeHTTP(rw, r)
}

// NewCollectCLI returns a CLI with the properties main, prefix and fresh.
func NewCollectCLI(t *testing.T, run Run, people *demo.Users) *CLI {
	t.Helper()
	c := New(t, run).Against(people)
	c.Env = append(c.Env, "SARA_COLLECT_RATE=100000")
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.WithProperty()
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	c.OK("property", "add", "mine", demo.SitePrefix, "--slug", "prefix")
	c.OK("property", "add", "mine", demo.SiteFresh, "--slug", "fresh")
	return c
}

// SettledWeeks returns the arguments for n weeks of final days. They mean the same days when midnight passes.
func SettledWeeks(n int) []string {
	until := time.Now().UTC().AddDate(0, 0, -7)
	return []string{"--since", until.AddDate(0, 0, 1-7*n).Format(time.DateOnly), "--until", until.Format(time.DateOnly)}
}

// ArchivedObjects returns the contents of all objects below a folder, of which there must be some, by their paths.
func ArchivedObjects(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".parquet" {
			return err
		}
		data, err := os.ReadFile(path)
		found[path[len(folder):]] = string(data)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%d objects in %s: %v", len(found), folder, err)
	}
	return found
}

// WantSameObjects checks that two archives have the same objects.
func WantSameObjects(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s has other bytes", name)
		}
	}
}
