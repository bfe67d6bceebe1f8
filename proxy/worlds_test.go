package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/upstream/gscsim"
)

// The random worlds are drawn from a seed; SARA_WORLDS_SEED repeats one, SARA_WORLDS sets their number, and SARA_WORLD picks a
// single one by its number in the seed.
const (
	worldsVariable     = "SARA_WORLDS"
	worldsSeedVariable = "SARA_WORLDS_SEED"
	worldVariable      = "SARA_WORLD"
)

// atOnce is how many worlds share a server, and archives.
const atOnce = 250

// questionsPerWorld is how many requests a world gets, besides that of its property.
const questionsPerWorld = 5

// Random worlds against a reference that knows the truth: no unknown day counts as zero without a note that names it, no comparison
// counts a day on one side only, every note is true, and figures are the naive sums over the days that count.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	seed := variable(t, worldsSeedVariable, uint64(time.Now().UnixNano()))
	n := variable(t, worldsVariable, 100)
	if testing.Short() {
		n = min(n, 40)
	}
	seen := map[string]int{}
	if os.Getenv(worldVariable) != "" {
		checkWorlds(t, seed, []uint64{variable(t, worldVariable, 0)}, seen)
		return
	}
	// A kind of answer that chance has left out comes with more worlds.
	for from := uint64(0); !t.Failed() && (from < n || n >= 100 && len(notSeen(seen)) > 0 && from < n+6*atOnce); from += atOnce {
		part := uint64(atOnce / 2)
		if from < n {
			part = min(n-from, atOnce)
		}
		checkWorlds(t, seed, numbersFrom(from, part), seen)
	}
	if names := notSeen(seen); n >= 100 && len(names) > 0 && !t.Failed() {
		t.Errorf("no answer is %s", strings.Join(names, ", "))
	}
	t.Logf("%s=%d: %v", worldsSeedVariable, seed, seen)
}

// numbersFrom returns the numbers of some worlds in a row.
func numbersFrom(first, n uint64) []uint64 {
	numbers := make([]uint64, n)
	for i := range numbers {
		numbers[i] = first + uint64(i)
	}
	return numbers
}

// notSeen returns the kinds of answers that no world has had.
func notSeen(seen map[string]int) (names []string) {
	for _, name := range []string{"200", "400", "503", "live", "stored", "hybrid", "unpublished", "missing", "compared", "young", "by page",
		"a year before", "copied before", "published later", "filtered later", "portfolio 200", "stale"} {
		if seen[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

func variable(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// checkWorlds checks the worlds of some numbers on one server.
func checkWorlds(t *testing.T, seed uint64, numbers []uint64, seen map[string]int) {
	t.Helper()
	truths := make([]*truth, len(numbers))
	var shown, complete []gscsim.Site
	archives := newArchives(seed, numbers[0]/atOnce)
	for i, number := range numbers {
		x := newTruth(seed, number, archives)
		truths[i] = x
		shown = append(shown, x.site)
		whole := x.site
		whole.Publication = gscsim.Publication{}
		complete = append(complete, whole)
	}
	sites := new(gscsim.Worlds)
	upstream := gscsim.New(gscsim.Config{Seed: 1, Now: noon, Users: []gscsim.User{{Sites: complete}}, Worlds: sites})
	kept, err := archive.NewHistory(archive.HistoryConfig{Bucket: &memoryBucket{objects: map[string][]byte{}}})
	if err != nil {
		t.Fatal(err)
	}
	history := &sharedHistory{History: kept, names: map[string]string{}}
	w := newWorldWith(t, shown, sites, builtInAnomalies, func(c *Config) {
		c.Reports.History, c.Reports.HedgeDelay, c.Cache.Bytes = history, time.Hour, 1<<30 // so that no copy of a series is evicted
	})
	for _, x := range truths {
		x.upstream = upstream
		w.addTruth(x, history)
	}
	w.readOnTheDayBefore(truths)
	failures := 0
	for _, x := range truths {
		failures += w.judgeWorld(x, seen)
		if failures >= 10 && os.Getenv("SARA_ALL") == "" {
			t.Fatal("too many failures")
		}
	}
	w.judgePortfolio(rand.New(rand.NewPCG(seed, numbers[0])), seen)
	w.judgeOutage(truths, seen)
}

// readOnTheDayBefore asks for a summary of some properties on the day before, whose copies of the series serve on the next.
func (w *world) readOnTheDayBefore(truths []*truth) {
	w.t.Helper()
	w.setClock("2026-11-21T07:00:00Z") // an hour before the anchor moves to lastDay
	for _, x := range truths {
		if x.copiedBefore {
			if status, body := w.fetch("/v1/properties/"+x.id+"/summary", nil, ""); status != http.StatusOK {
				w.t.Fatalf("%s\n  the summary of the day before is %d %s", x, status, body)
			}
		}
	}
	w.clock.Store(noon().UnixNano())
}

// judgePortfolio compares the portfolio of all worlds with each property's own summary. The summaries come first: an archive, which is
// not that of the site here, answers a portfolio while no copy of the live series is at hand.
func (w *world) judgePortfolio(r *rand.Rand, seen map[string]int) {
	w.t.Helper()
	query := []string{"date_range", pick(r, "last_7d", "last_28d", "last_90d", "previous_month"),
		"compare", pick(r, "none", "previous_period", "previous_year")}
	pages := func() (whole portfolioAnswer) {
		for offset := 0; ; offset += len(whole.Data.Rows) - offset {
			status, body := w.fetch("/v1/portfolio", append(query, "limit", "200", "offset", strconv.Itoa(offset)), "max-age=0")
			if status != http.StatusOK {
				w.t.Fatalf("the portfolio answers %d %s", status, body)
			}
			rows := whole.Data.Rows
			whole = readPortfolio(w.t, body)
			whole.Data.Rows = append(rows, whole.Data.Rows...)
			if whole.Meta.RowCount == 0 || len(whole.Data.Rows) == whole.Meta.Total {
				return whole
			}
		}
	}
	for _, row := range pages().Data.Rows {
		w.fetch("/v1/properties/"+row.PropertyID+"/summary", query, "no-cache")
	}
	whole := pages()
	for _, row := range whole.Data.Rows {
		seen[fmt.Sprint("portfolio ", w.wantSummary(row, &whole, query))]++
	}
	whole.wantTotals(w.t, query[3] != "none")
}

// judgeWorld sends the questions about a world, and returns how many answers are wrong.
func (w *world) judgeWorld(x *truth, seen map[string]int) (failures int) {
	w.t.Helper()
	r := rand.New(rand.NewPCG(x.seed, ^x.number))
	copied := notAtHand
	ask := func(q *question) {
		w.t.Helper()
		x.asked[q.rows()] = true
		reads := copied
		if x.kind == connected && q.table == "total" && q.filter == nil && q.to >= liveStart {
			reads = atHand // the series itself
		} else if copied != atHand {
			reads = max(copied, x.readsSeries(w.t, q))
		}
		ok, success := w.judge(x, q, reads, seen)
		if success && q.byYear {
			seen["a year before"]++
		}
		if !ok {
			failures++
		}
		switch {
		case success:
			copied = reads
		case reads != copied:
			copied = perhapsAtHand // refused before or after the series was read
		}
	}
	for range questionsPerWorld {
		q := x.draw(r)
		for x.copiedBefore && copied == notAtHand && q.knowsMore() {
			q = x.draw(r)
		}
		if x.copiedBefore && copied == notAtHand && q.table != "total" {
			seen["copied before"]++
		}
		ask(q)
		if x.newer != nil && q.filter != nil {
			seen["filtered later"]++
		}
		if x.newer == nil && copied == atHand && x.late() && x.lastPublished < lastDay && r.IntN(6) == 0 {
			x.publish(w, r)
			seen["published later"]++
		}
	}
	if x.newer != nil { // a refresh takes in what was published; the clock stays on the day, since few worlds publish
		x = x.newer
		w.advance(freshAtAnchor + time.Minute)
		week := presetDays()["last_7d"]
		ask(&question{endpoint: "/timeseries", table: "total", preset: "last_7d", query: []string{"date_range", "last_7d"}, from: week[0],
			to: week[1], cacheControl: "no-cache"})
		for range 2 {
			q := x.draw(r)
			q.cacheControl = "no-cache" // no stale rows
			ask(q)
		}
	}
	if copied == atHand || copied == notAtHand && !x.copiedBefore {
		w.judgeProperty(x, copied == atHand)
	}
	return failures
}

// addTruth adds the property of a truth, and fills its archive.
func (w *world) addTruth(x *truth, history *sharedHistory) {
	w.t.Helper()
	like := "prefix"
	if x.kind == disconnected {
		like = "disconnected"
	}
	ctx := context.Background()
	added, err := w.store.AddProperty(ctx, sqlstore.PropertySpec{Connection: w.properties[like].Connection.ID, Site: x.site.URL,
		PermissionLevel: "siteOwner"})
	w.must(err)
	x.id = added.ID
	if x.kind == archived {
		_, err := w.store.SetArchived(ctx, x.id, true)
		w.must(err)
	}
	x.store(w, history)
}

// fetch requests a path like get, but leaves out the comparison with the OpenAPI document, which would take most of the time.
func (w *world) fetch(path string, query []string, cacheControl string) (status int, body []byte) {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base+path+queryString(query), nil)
	w.must(err)
	request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
	if cacheControl != "" {
		request.Header.Set("Cache-Control", cacheControl)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	defer func() { w.must(answer.Body.Close()) }()
	body, err = io.ReadAll(answer.Body)
	w.must(err)
	return answer.StatusCode, body
}

// judge sends a question, and reports whether a reading of the world explains the answer, and whether it is a success.
func (w *world) judge(x *truth, q *question, copied certainty, seen map[string]int) (ok, success bool) {
	w.t.Helper()
	status, body := w.fetch("/v1/properties/"+x.id+q.endpoint, q.query, q.cacheControl)
	var s served
	w.must(json.Unmarshal(body, &s))
	var first problems
	var explained *expectation
	for _, reading := range x.readings(q, copied) {
		e := reading.expect(w.t, q)
		found := reading.check(q, e, status, &s)
		if len(found) == 0 {
			s.count(status, seen)
			return true, status == http.StatusOK
		}
		if first == nil {
			first, explained = found, e
		}
	}
	w.t.Errorf("%s\n  %s %s, a copy is at hand: %s\n  days: %s\n  %s\n  the answer is %.1500s", x, q.endpoint, strings.Join(q.query, " "), copied,
		explained.describe(), strings.Join(first, "\n  "), body)
	return false, status == http.StatusOK
}

// count counts what the answers were, to show that the worlds are varied.
func (s *served) count(status int, seen map[string]int) {
	seen[strconv.Itoa(status)]++
	seen[s.Meta.Source]++
	text := strings.Join(s.Meta.Notes, " ")
	for name, part := range map[string]string{"unpublished": "has not published", "unclear": "may not have published", "missing": "not archived",
		"compared": "missing on one side", "young": "begin", "by page": "counts by page"} {
		if strings.Contains(text, part) {
			seen[name]++
		}
	}
}

// describe lists the states of the days, in runs.
func (e *expectation) describe() string {
	var runs []string
	span := e.span()
	for i := 0; i < len(span); {
		end := i
		for end+1 < len(span) && e.states[span[end+1]] == e.states[span[i]] {
			end++
		}
		runs = append(runs, fmt.Sprintf("%s to %s %s", span[i], span[end], e.states[span[i]]))
		i = end + 1
	}
	return strings.Join(runs, ", ")
}

// judgeProperty checks the data window of a property.
func (w *world) judgeProperty(x *truth, copied bool) {
	w.t.Helper()
	data := w.get("pro", "/v1/properties/"+x.id).ok(w.t).data()
	window := data["data_window"].(map[string]any)
	days := slices.Sorted(maps.Keys(x.archive.days))
	from, to := liveStart, lastDay
	first, last, ok := x.bounds()
	// As long as no question has needed a call, a connection that was revoked counts as healthy.
	healthy := data["connection"].(map[string]any)["healthy"] == true
	switch {
	case (x.kind == archived || !healthy) && len(days) > 0:
		from, to = days[0], days[len(days)-1]
		if stored, has := x.firstStored(); has {
			from = stored
		}
	case copied && ok:
		from, to = first, last
		if stored, has := x.firstStored(); has {
			from = min(from, stored)
		}
	case len(days) > 0:
		from = min(from, days[0])
	}
	if window["earliest_data_date"] != from.String() || window["latest_data_date"] != to.String() {
		w.t.Errorf("%s\n  a copy is at hand: %t\n  data_window is %v, want %s to %s", x, copied, window, from, to)
	}
}
