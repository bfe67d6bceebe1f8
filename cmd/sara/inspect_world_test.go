package main

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

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// inspectWorld is a simulated Search Console whose sites are on its own listener, so that their sitemaps can be fetched. It
// records the inspected URLs, and its clock stands still.
type inspectWorld struct {
	*gscsim.Server
	people            *demo.Users
	now               time.Time
	shop, blog, guest string // sites: with an index of two sitemaps, with one gzip file, and one that may not be inspected

	mu        sync.Mutex // guards what follows
	inspected []string   // URLs, in the order of the calls
	left      int        // inspections and fetched sitemaps until then
	after     func()     // nil: no step to wait for
	renamed   [2]string  // a coverage label, and its replacement
}

func newInspectWorld(t *testing.T, pages int) *inspectWorld {
	t.Helper()
	w := &inspectWorld{now: time.Now()}
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	if calendar.Day(w.now) != calendar.Day(w.now.Add(hurry)) {
		t.Skip("the day ends soon, and on the next one everything is inspected again")
	}
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	base := "http://" + server.Listener.Addr().String()
	w.people = &demo.Users{URL: base, Credentials: make(map[string][]byte)}
	w.shop, w.blog, w.guest = base+"/shop/", base+"/blog/", base+"/guest/"
	if err := w.people.AddPerson("mine", false,
		gscsim.Site{URL: w.shop, Pages: pages, Queries: 100},
		gscsim.Site{URL: w.blog, Pages: 9, Queries: 50, Sitemaps: []string{w.blog + "sitemap.xml.gz"}},
		gscsim.Site{URL: w.guest, Pages: 12, Queries: 50, Permission: gscsim.RestrictedUser}); err != nil {
		t.Fatal(err)
	}
	config := w.people.Simulation(func() time.Time { return w.now })
	config.TokenNow = time.Now
	config.Quotas = gscsim.Quotas{SearchPerMinute: -1, InspectionsPerMinute: -1, InspectionsPerDay: -1}
	w.Server = gscsim.New(config)
	server.Config.Handler = w
	server.Start()
	return w
}

// inSteps calls f, while the caller waits, at the given number of inspections and sitemap fetches.
func (w *inspectWorld) inSteps(n int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.after = n, f
}

// rename replaces a coverage label of Search Console.
func (w *inspectWorld) rename(label, word string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renamed = [2]string{label, word}
}

// inspectedURLs returns the URLs that were inspected so far.
func (w *inspectWorld) inspectedURLs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.inspected)
}

func (w *inspectWorld) step() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.after != nil && w.left == 0 {
		w.after()
	}
}

func (w *inspectWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.URL.Path, "sitemap") && !strings.HasPrefix(r.URL.Path, "/webmasters/"):
		w.step()
	case strings.HasSuffix(r.URL.Path, "index:inspect"):
		w.serveInspection(rw, r)
		return
	}
	w.Server.ServeHTTP(rw, r)
}

func (w *inspectWorld) serveInspection(rw http.ResponseWriter, r *http.Request) {
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

// labels returns the coverage labels of the URLs in the sitemaps of a site.
func (w *inspectWorld) labels(site string) map[string]string {
	labels := make(map[string]string)
	for _, page := range w.Coverage(site, w.now) {
		if page.CoverageState != "Indexed, not submitted in sitemap" {
			labels[page.URL] = page.CoverageState
		}
	}
	return labels
}

const inspectMembers = "id gsc_property urls capped inspected left complete note sitemap_problems"

// newInspectCLI returns a CLI with a connection to the sites of w, and properties of some of them.
func newInspectCLI(t *testing.T, w *inspectWorld, sites ...string) *cli {
	t.Helper()
	c := newCLI(t).against(w.people)
	c.env = append(c.env, "SARA_SITEMAP_ALLOW_LOOPBACK=true", "SARA_COLLECT_RATE=100000")
	c.ok("account", "add", "Acme", "--plan", "agency")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.ok("connection", "add", "Web", "--name", "mine", "--credentials", c.path("mine.json"))
	for _, site := range sites {
		c.ok("property", "add", "mine", site, "--slug", w.slug(site))
	}
	return c
}

// slug returns the slug of the property of a site.
func (w *inspectWorld) slug(site string) string {
	return strings.Trim(strings.TrimPrefix(site, w.people.URL), "/")
}

// later opens the database of the CLI with a clock by which all leases of today have expired.
func (c *cli) later() *sqlstore.Store {
	c.t.Helper()
	return c.open(func() time.Time { return time.Now().Add(time.Hour) })
}

// open opens the database of the CLI until the test ends.
func (c *cli) open(now func() time.Time) *sqlstore.Store {
	c.t.Helper()
	store, err := sqlstore.Open(c.t.Context(), sqlstore.Config{URL: "sqlite:" + c.path("sara.db"), Now: now})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return store
}

// propertyID returns the id of a property.
func (c *cli) propertyID(store *sqlstore.Store, slug string) string {
	c.t.Helper()
	p, err := store.Property(c.t.Context(), slug)
	if err != nil {
		c.t.Fatal(err)
	}
	return p.ID
}

// results returns the URLs of a property that have a result, published or not.
func (c *cli) results(store *sqlstore.Store, id string) []string {
	c.t.Helper()
	tracked, err := store.TrackedURLs(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	var urls []string
	for _, u := range tracked {
		if u.InspectedAt != nil {
			urls = append(urls, u.URL)
		}
	}
	return urls
}
