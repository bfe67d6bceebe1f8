package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/policy/redistest"
	"sara/translate"
)

// wantInspected compares a result with the members of its record.
func wantInspected(t *testing.T, got, want map[string]any) {
	t.Helper()
	for member, value := range want {
		if got[member] != value {
			t.Errorf("%v: %s is %v, want %v: %v", got["gsc_property"], member, got[member], value, got)
		}
	}
	if problems, ok := got["sitemap_problems"].([]any); !ok || len(problems) != 0 {
		t.Errorf("%v: sitemap_problems are %v, want none", got["gsc_property"], got["sitemap_problems"])
	}
}

// wantURLs compares in any order.
func wantURLs(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d URLs\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	w := newInspectWorld(t, 24)
	c := newInspectCLI(t, w, w.shop, w.blog)
	shop, blog := w.labels(w.shop), w.labels(w.blog)

	some := c.array(inspectMembers, "inspect", "--property", "blog", "--max", "5")
	if len(some) != 1 || len(w.inspectedURLs()) != 5 {
		t.Fatalf("five URLs of one property: %d were inspected: %v", len(w.inspectedURLs()), some)
	}
	wantInspected(t, some[0], map[string]any{"gsc_property": w.blog, "urls": float64(len(blog)), "capped": false, "inspected": 5.0,
		"left": float64(len(blog) - 5), "complete": false,
		"note": fmt.Sprintf("URLs left: %d; --max 5 is reached", len(blog)-5)})

	rest := c.array(inspectMembers, "inspect")
	if len(rest) != 2 {
		t.Fatalf("all properties: %v", rest)
	}
	for _, r := range rest {
		urls, already := shop, 0
		if r["gsc_property"] == w.blog {
			urls, already = blog, 5
		}
		wantInspected(t, r, map[string]any{"urls": float64(len(urls)), "capped": false, "inspected": float64(len(urls) - already),
			"left": 0.0, "complete": true, "note": ""})
	}
	wantURLs(t, w.inspectedURLs(), slices.AppendSeq(slices.Collect(maps.Keys(shop)), maps.Keys(blog)))
	calls := w.Calls()
	if int(calls.Inspections) != len(shop)+len(blog) || calls.SearchAnalytics != 0 {
		t.Errorf("calls: %+v", calls)
	}
	inspected := len(shop) + len(blog) - 5
	if want := fmt.Sprintf("2 of 2 properties, %d of %d URLs\n", inspected, inspected); !strings.Contains(c.lastErrs, want) {
		t.Errorf("the progress lacks %q:\n%s", want, c.lastErrs)
	}

	// A second run of the day inspects nothing.
	table := columns(c.ok("inspect"))
	if len(table) != 3 || strings.Join(table[0], " ") != "GSC PROPERTY URLS CAPPED INSPECTED LEFT COMPLETE ID NOTE" ||
		!slices.ContainsFunc(table, func(row []string) bool {
			return row[0] == w.shop && slices.Equal(row[1:6], []string{strconv.Itoa(len(shop)), "no", "0", "0", "yes"})
		}) {
		t.Errorf("table: %v", table)
	}
	if again := w.Calls().Inspections - calls.Inspections; again != 0 {
		t.Errorf("%d inspections of what has been inspected today", again)
	}
	c.keptSecrets(w.people)
}

func TestInspectRejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.fails(exitError, []string{"inspect", "--property", "nothing"}, "sara property list")
	c.fails(exitUsage, []string{"inspect", "--max=-1"}, "--max -1 is negative")
	c.fails(exitError, []string{"inspect", "--sitemap-allow-loopback", "maybe"}, `SARA_SITEMAP_ALLOW_LOOPBACK (--sitemap-allow-loopback): "maybe" is neither true nor false`)
	if printed := c.ok("inspect", "--json"); printed != "[]\n" {
		t.Errorf("without properties: %q", printed)
	}
}

func TestInspectIsBoundedByPlan(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	w := newInspectWorld(t, 24)
	c := newInspectCLI(t, w, w.shop, w.blog)
	c.env = append(c.env, "SARA_PLANS_FILE="+c.write("plans.yaml", "plans: {agency: {retention_months: 16, inspected_urls_per_property: 3}}\n"))
	c.ok("property", "archive", "blog")
	for _, r := range c.array(inspectMembers, "inspect") {
		if r["gsc_property"] == w.shop {
			wantInspected(t, r, map[string]any{"urls": 3.0, "capped": true, "inspected": 3.0, "left": 0.0, "complete": true, "note": ""})
		} else {
			wantInspected(t, r, map[string]any{"urls": 0.0, "inspected": 0.0, "complete": false, "note": "it is archived, or its plan inspects no URLs"})
		}
	}
	if calls := w.Calls(); calls.Inspections != 3 || calls.Sitemaps != 1 {
		t.Errorf("calls: %+v", calls)
	}
}

func TestInspectWaitsForLeaseOfDeadProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	w := newInspectWorld(t, 24)
	c := newInspectCLI(t, w, w.blog)
	store := c.open(time.Now)
	lease := "inspect/" + c.propertyID(store, "blog")
	if got, err := store.AcquireLease(t.Context(), lease, "a process that died", 500*time.Millisecond); err != nil || !got {
		t.Fatalf("the lease cannot be acquired: %v", err)
	}
	list := c.array(inspectMembers, "inspect")
	if len(list) != 1 || list[0]["complete"] != true || list[0]["inspected"] != float64(len(w.labels(w.blog))) {
		t.Errorf("inspected %v", list)
	}
}

// Sitemaps on loopback addresses are an attack (SSRF) unless a test allows them.
func TestInspectRefusesLoopbackSitemaps(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	w := newInspectWorld(t, 24)
	c := newInspectCLI(t, w, w.shop)
	c.env = append(c.env, "SARA_SITEMAP_ALLOW_LOOPBACK=false")
	w.inSteps(1, func() { t.Error("a sitemap of this machine was fetched") })
	lastWeek := settledWeeks(1)[3]
	c.ok("collect", "--since", lastWeek, "--until", lastWeek)
	w.inSteps(0, nil)

	var visited []string
	for line := range strings.Lines(c.ok("archive", "export", "shop", "--from", lastWeek, "--to", lastWeek, "--format", "csv")) {
		if cells := strings.Split(line, ","); len(cells) > 2 && cells[1] == "page" {
			visited = append(visited, cells[2])
		}
	}
	if len(visited) < 10 {
		t.Fatalf("only %d pages had traffic", len(visited))
	}
	list := c.array(inspectMembers, "inspect")
	if len(list) != 1 || list[0]["complete"] != true || list[0]["urls"] != float64(len(visited)) || list[0]["inspected"] != float64(len(visited)) {
		t.Errorf("inspected %v, want %d URLs", list, len(visited))
	}
	wantURLs(t, w.inspectedURLs(), visited)
	problems, _ := list[0]["sitemap_problems"].([]any)
	if len(problems) != 3 {
		t.Errorf("sitemap_problems: %v, want three", problems)
	}
	for _, p := range problems {
		problem, _ := p.(map[string]any)
		c.hasMembers(problem, "path problem")
		path, _ := problem["path"].(string)
		if reason, _ := problem["problem"].(string); !strings.HasPrefix(path, w.shop) || reason == "" || !strings.Contains(c.lastErrs, reason) {
			t.Errorf("a problem is %v, the progress is\n%s", problem, c.lastErrs)
		}
	}
	store := c.later()
	if state, err := store.IndexState(t.Context(), c.propertyID(store, "shop")); err != nil || state.Source != "performance" {
		t.Errorf("the URLs come from %q (%v), want performance", state.Source, err)
	}
}

func TestInspectExplainsMissingPermission(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	w := newInspectWorld(t, 24)
	c := newInspectCLI(t, w, w.guest, w.blog)
	status, stdout, stderr := c.run("inspect", "--json")
	if status != exitError || !strings.Contains(stderr, "1 of 2 properties are incomplete") {
		t.Errorf("status %d\n%s", status, stderr)
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list) != 2 {
		t.Fatalf("%q: %v", stdout, err)
	}
	for _, r := range list {
		refused := r["gsc_property"] == w.guest
		note, _ := r["note"].(string)
		if r["complete"] == refused || strings.Contains(note, "an owner of the property or a full user") != refused ||
			(r["inspected"] == 0.0) != refused {
			t.Errorf("inspected %v", r)
		}
	}
	if wasted := int(w.Calls().Inspections) - len(w.labels(w.blog)); wasted < 1 || wasted > 5 {
		t.Errorf("%d inspections were refused", wasted)
	}
	// The property can still be read, and its connection is healthy.
	for _, p := range c.array(propertyMembers, "property", "list") {
		if p["healthy"] != true || p["note"] != "" {
			t.Errorf("property %v is not healthy: %v", p["slug"], p["note"])
		}
	}
	c.ok("collect", "--property", "guest", "--since", settledWeeks(1)[3], "--until", settledWeeks(1)[3])
}

// Seven inspections of the day are left, counted in Redis or in the database.
func TestInspectKeepsQuotaOfTheDay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const left = 7
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	today := calendar.Day(time.Now())
	use := func(t *testing.T, take func() (bool, error)) {
		t.Helper()
		for range policy.InspectionsPerDay - left {
			if granted, err := take(); err != nil || !granted {
				t.Fatalf("granted %t (%v)", granted, err)
			}
		}
	}
	run := func(t *testing.T, w *inspectWorld, c *cli) {
		t.Helper()
		urls := float64(len(w.labels(w.shop)))
		for _, inspected := range []float64{left, 0} { // the second run is that of a restart
			list := c.array(inspectMembers, "inspect")
			if len(list) != 1 {
				t.Fatalf("inspected %v", list)
			}
			urls -= inspected
			wantInspected(t, list[0], map[string]any{"inspected": inspected, "left": urls, "complete": false,
				"note": fmt.Sprintf("URLs left: %v; the upstream's quota of the day is used up", urls)})
		}
		if calls := w.Calls().Inspections; calls != left {
			t.Errorf("%d inspections, and %d were left of the day", calls, left)
		}
	}
	t.Run("in the database", func(t *testing.T) {
		w := newInspectWorld(t, 24)
		c := newInspectCLI(t, w, w.shop)
		store := c.open(time.Now)
		use(t, func() (bool, error) {
			return store.TakeInspection(t.Context(), w.shop, today, policy.InspectionsPerDay)
		})
		run(t, w, c)
	})
	t.Run("in Redis", func(t *testing.T) {
		server := redistest.Single(t)
		w := newInspectWorld(t, 24)
		c := newInspectCLI(t, w, w.shop)
		c.env = append(c.env, "SARA_REDIS_URL="+server.URL())
		// Both count the same day; this test does not wait for the quota of the minute.
		const perMinute = 1_000_000
		counts := policy.NewInspections(server.Client(), policy.InspectionLimits{PerMinute: perMinute})
		use(t, func() (bool, error) {
			granted, _, err := counts.Take(t.Context(), w.shop, int32(today))
			return granted, err
		})
		run(t, w, c)
	})
}
