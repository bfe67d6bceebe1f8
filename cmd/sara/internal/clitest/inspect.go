package clitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// InspectWorld is a simulated Search Console whose sites are on its own listener, so that their sitemaps can be fetched. It
// records the inspected URLs, and its clock stands still.
type InspectWorld struct {
	*gscsim.Server
	People            *demo.Users
	now               time.Time
	Shop, Blog, Guest string // sites: with an index of two sitemaps, with one gzip file, and one that may not be inspected

	mu        sync.Mutex // guards what follows
	inspected []string   // URLs, in the order of the calls
	left      int        // inspections and fetched sitemaps until then
	after     func()     // nil: no step to wait for
	renamed   [2]string  // a coverage label, and its replacement
}

// NewInspectWorld starts one whose shop has a number of pages.
func NewInspectWorld(t *testing.T, pages int) *InspectWorld {
	t.Helper()
	w := &InspectWorld{now: time.Now()}
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	if calendar.Day(w.now) != calendar.Day(w.now.Add(Hurry)) {
		t.Skip("the day ends soon, and on the next one everything is inspected again")
	}
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	base := "http://" + server.Listener.Addr().String()
	w.People = &demo.Users{URL: base, Credentials: make(map[string][]byte)}
	w.Shop, w.Blog, w.Guest = base+"/shop/", base+"/blog/", base+"/guest/"
	if err := w.People.AddPerson("mine", false,
		gscsim.Site{URL: w.Shop, Pages: pages, Queries: 100},
		gscsim.Site{URL: w.Blog, Pages: 9, Queries: 50, Sitemaps: []string{w.Blog + "sitemap.xml.gz"}},
		gscsim.Site{URL: w.Guest, Pages: 12, Queries: 50, Permission: gscsim.RestrictedUser}); err != nil {
		t.Fatal(err)
	}
	config := w.People.Simulation(func() time.Time { return w.now })
	config.TokenNow = time.Now
	config.Quotas = gscsim.Quotas{SearchPerMinute: -1, InspectionsPerMinute: -1, InspectionsPerDay: -1}
	w.Server = gscsim.New(config)
	server.Config.Handler = w
	server.Start()
	return w
}

// InSteps calls f, while the caller waits, at the given number of inspections and sitemap fetches.
func (w *InspectWorld) InSteps(n int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.after = n, f
}

// Rename replaces a coverage label of Search Console.
func (w *InspectWorld) Rename(label, word string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renamed = [2]string{label, word}
}

// InspectedURLs returns the URLs that were inspected so far.
func (w *InspectWorld) InspectedURLs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.inspected)
}

func (w *InspectWorld) step() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.after != nil && w.left == 0 {
		w.after()
	}
}

func (w *InspectWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.URL.Path, "sitemap") && !strings.HasPrefix(r.URL.Path, "/webmasters/"):
		w.step()
	case strings.HasSuffix(r.URL.Path, "index:inspect"):
		w.serveInspection(rw, r)
		return
	}
	w.Server.ServeHTTP(rw, r)
}

func (w *InspectWorld) serveInspection(rw http.ResponseWriter, r *http.Request) {
	var request struct{ InspectionURL string }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil { // the client disconnected
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	w.inspected = append(w.inspected, request.InspectionURL)
	renamed := w.renamed
	w.mu.Unlock()
	w.step()
	r.Header.Del("Accept-Encoding") // what is replaced is text
	answer := httptest.NewRecorder()
	w.Server.ServeHTTP(answer, r)
	said := answer.Body.Bytes()
	if renamed[0] != "" {
		said = bytes.ReplaceAll(said, []byte(renamed[0]), []byte(renamed[1]))
	}
	for name, values := range answer.Header() {
		if name != "Content-Length" {
			rw.Header()[name] = values
		}
	}
	rw.WriteHeader(answer.Code)
	_, _ = rw.Write(said) // fails when the client was killed
}

// Labels returns the coverage labels of the URLs in the sitemaps of a site.
func (w *InspectWorld) Labels(site string) map[string]string {
	labels := make(map[string]string)
	for _, page := range w.Coverage(site, w.now) {
		if page.CoverageState != "Indexed, not submitted in sitemap" {
			labels[page.URL] = page.CoverageState
		}
	}
	return labels
}

// InspectMembers are the members that inspect --json prints.
const InspectMembers = "id gsc_property urls capped inspected left complete note sitemap_problems"

// NewInspectCLI returns a CLI with a connection to the sites of w, and properties of some of them.
func NewInspectCLI(t *testing.T, run Run, w *InspectWorld, sites ...string) *CLI {
	t.Helper()
	c := New(t, run).Against(w.People)
	c.Env = append(c.Env, "SARA_SITEMAP_ALLOW_LOOPBACK=true", "SARA_COLLECT_RATE=100000")
	c.OK("account", "add", "Acme", "--plan", "agency")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path("mine.json"))
	for _, site := range sites {
		c.OK("property", "add", "mine", site, "--slug", w.Slug(site))
	}
	return c
}

// Slug returns the slug of the property of a site.
func (w *InspectWorld) Slug(site string) string {
	return strings.Trim(strings.TrimPrefix(site, w.People.URL), "/")
}
