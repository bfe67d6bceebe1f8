package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
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
	w := clitest.NewInspectWorld(t, 24)
	c := clitest.NewInspectCLI(t, sara, w, w.Shop, w.Blog)
	shop, blog := w.Labels(w.Shop), w.Labels(w.Blog)

	some := c.Array(clitest.InspectMembers, "inspect", "--property", "blog", "--max", "5")
	if len(some) != 1 || len(w.InspectedURLs()) != 5 {
		t.Fatalf("five URLs of one property: %d were inspected: %v", len(w.InspectedURLs()), some)
	}
	wantInspected(t, some[0], map[string]any{"gsc_property": w.Blog, "urls": float64(len(blog)), "capped": false, "inspected": 5.0,
		"left": float64(len(blog) - 5), "complete": false,
		"note": fmt.Sprintf("URLs left: %d; --max 5 is reached", len(blog)-5)})

	rest := c.Array(clitest.InspectMembers, "inspect")
	if len(rest) != 2 {
		t.Fatalf("all properties: %v", rest)
	}
	for _, r := range rest {
		urls, already := shop, 0
		if r["gsc_property"] == w.Blog {
			urls, already = blog, 5
		}
		wantInspected(t, r, map[string]any{"urls": float64(len(urls)), "capped": false, "inspected": float64(len(urls) - already),
			"left": 0.0, "complete": true, "note": ""})
	}
	wantURLs(t, w.InspectedURLs(), slices.AppendSeq(slices.Collect(maps.Keys(shop)), maps.Keys(blog)))
	calls := w.Calls()
	if int(calls.Inspections) != len(shop)+len(blog) || calls.SearchAnalytics != 3 { // one for each discovery
		t.Errorf("calls: %+v", calls)
	}
	inspected := len(shop) + len(blog) - 5
	if want := fmt.Sprintf("2 of 2 properties, %d of %d URLs\n", inspected, inspected); !strings.Contains(c.LastErrs, want) {
		t.Errorf("the progress lacks %q:\n%s", want, c.LastErrs)
	}

	// A second run of the day inspects nothing.
	table := columns(c.OK("inspect"))
	if len(table) != 3 || strings.Join(table[0], " ") != "GSC PROPERTY URLS CAPPED INSPECTED LEFT COMPLETE ID NOTE" ||
		!slices.ContainsFunc(table, func(row []string) bool {
			return row[0] == w.Shop && slices.Equal(row[1:6], []string{strconv.Itoa(len(shop)), "no", "0", "0", "yes"})
		}) {
		t.Errorf("table: %v", table)
	}
	if again := w.Calls().Inspections - calls.Inspections; again != 0 {
		t.Errorf("%d inspections of what has been inspected today", again)
	}
	c.KeptSecrets(w.People)
}

func TestInspectRejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Fails(ExitError, []string{"inspect", "--property", "nothing"}, "sara property list")
	c.Fails(ExitUsage, []string{"inspect", "--max=-1"}, "--max -1 is negative")
	c.Fails(ExitUsage, []string{"inspect", "--sitemap-allow-loopback", "maybe"},
		`SARA_SITEMAP_ALLOW_LOOPBACK (--sitemap-allow-loopback): "maybe" is neither true nor false`)
	if printed := c.OK("inspect", "--json"); printed != "[]\n" {
		t.Errorf("without properties: %q", printed)
	}
}

func TestInspectIsBoundedByPlan(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	w := clitest.NewInspectWorld(t, 24)
	c := clitest.NewInspectCLI(t, sara, w, w.Shop, w.Blog)
	c.Env = append(c.Env, "SARA_PLANS_FILE="+c.Write("plans.yaml", "plans: {agency: {retention_months: 16, inspected_urls_per_property: 3}}\n"))
	c.OK("property", "archive", "blog")
	for _, r := range c.Array(clitest.InspectMembers, "inspect") {
		if r["gsc_property"] == w.Shop {
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
	w := clitest.NewInspectWorld(t, 24)
	c := clitest.NewInspectCLI(t, sara, w, w.Blog)
	store := c.Open(time.Now)
	lease := "inspect/" + c.PropertyID(store, "blog")
	if got, err := store.AcquireLease(t.Context(), lease, "a process that died", 500*time.Millisecond); err != nil || !got {
		t.Fatalf("the lease cannot be acquired: %v", err)
	}
	list := c.Array(clitest.InspectMembers, "inspect")
	if len(list) != 1 || list[0]["complete"] != true || list[0]["inspected"] != float64(len(w.Labels(w.Blog))) {
		t.Errorf("inspected %v", list)
	}
}

// Sitemaps on loopback addresses are an attack (SSRF) unless a test allows them.
func TestInspectRefusesLoopbackSitemaps(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	w := clitest.NewInspectWorld(t, 24)
	c := clitest.NewInspectCLI(t, sara, w, w.Shop)
	c.Env = append(c.Env, "SARA_SITEMAP_ALLOW_LOOPBACK=false")
	w.InSteps(1, func() { t.Error("a sitemap of this machine was fetched") })
	lastWeek := clitest.SettledWeeks(1)[3]
	c.OK("collect", "--since", lastWeek, "--until", lastWeek)
	w.InSteps(0, nil)

	var visited []string
	for line := range strings.Lines(c.OK("archive", "export", "shop", "--from", lastWeek, "--to", lastWeek, "--format", "csv")) {
		if cells := strings.Split(line, ","); len(cells) > 2 && cells[1] == "page" {
			visited = append(visited, cells[2])
		}
	}
	if len(visited) < 10 {
		t.Fatalf("only %d pages had traffic", len(visited))
	}
	list := c.Array(clitest.InspectMembers, "inspect")
	if len(list) != 1 || list[0]["complete"] != true || list[0]["urls"] != float64(len(visited)) || list[0]["inspected"] != float64(len(visited)) {
		t.Errorf("inspected %v, want %d URLs", list, len(visited))
	}
	wantURLs(t, w.InspectedURLs(), visited)
	problems, _ := list[0]["sitemap_problems"].([]any)
	if len(problems) != 3 {
		t.Errorf("sitemap_problems: %v, want three", problems)
	}
	for _, p := range problems {
		problem, _ := p.(map[string]any)
		c.HasMembers(problem, "path problem")
		path, _ := problem["path"].(string)
		if reason, _ := problem["problem"].(string); !strings.HasPrefix(path, w.Shop) || reason == "" || !strings.Contains(c.LastErrs, reason) {
			t.Errorf("a problem is %v, the progress is\n%s", problem, c.LastErrs)
		}
	}
	store := c.Later()
	if p, _, err := store.InspectableProperty(t.Context(), c.PropertyID(store, "shop")); err != nil || p.Index.Source != "performance" {
		t.Errorf("the URLs come from %q (%v), want performance", p.Index.Source, err)
	}
}

func TestInspectExplainsMissingPermission(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	w := clitest.NewInspectWorld(t, 24)
	c := clitest.NewInspectCLI(t, sara, w, w.Guest, w.Blog)
	status, stdout, stderr := c.Run("inspect", "--json")
	if status != ExitError || !strings.Contains(stderr, "1 of 2 properties is incomplete") {
		t.Errorf("status %d\n%s", status, stderr)
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list) != 2 {
		t.Fatalf("%q: %v", stdout, err)
	}
	for _, r := range list {
		refused := r["gsc_property"] == w.Guest
		note, _ := r["note"].(string)
		if r["complete"] == refused || strings.Contains(note, "an owner of the property or a full user") != refused ||
			(r["inspected"] == 0.0) != refused {
			t.Errorf("inspected %v", r)
		}
	}
	if wasted := int(w.Calls().Inspections) - len(w.Labels(w.Blog)); wasted < 1 || wasted > 5 {
		t.Errorf("%d inspections were refused", wasted)
	}
	// The property can still be read, and its connection is healthy.
	for _, p := range c.Array(clitest.PropertyMembers, "property", "list") {
		if p["healthy"] != true || p["note"] != "" {
			t.Errorf("property %v is not healthy: %v", p["slug"], p["note"])
		}
	}
	c.OK("collect", "--property", "guest", "--since", clitest.SettledWeeks(1)[3], "--until", clitest.SettledWeeks(1)[3])
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
	run := func(t *testing.T, w *clitest.InspectWorld, c *clitest.CLI) {
		t.Helper()
		urls := float64(len(w.Labels(w.Shop)))
		for _, inspected := range []float64{left, 0} { // the second run is that of a restart
			list := c.Array(clitest.InspectMembers, "inspect")
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
		w := clitest.NewInspectWorld(t, 24)
		c := clitest.NewInspectCLI(t, sara, w, w.Shop)
		store := c.Open(time.Now)
		use(t, func() (bool, error) {
			return store.TakeInspection(t.Context(), w.Shop, today, policy.InspectionsPerDay)
		})
		run(t, w, c)
	})
	t.Run("in Redis", func(t *testing.T) {
		server := redistest.Single(t)
		w := clitest.NewInspectWorld(t, 24)
		c := clitest.NewInspectCLI(t, sara, w, w.Shop)
		c.Env = append(c.Env, "SARA_REDIS_URL="+server.URL())
		// Both count the same day; this test does not wait for the quota of the minute.
		const perMinute = 1_000_000
		counts := policy.NewInspections(server.Client(), policy.InspectionLimits{PerMinute: perMinute})
		use(t, func() (bool, error) {
			granted, _, err := counts.Take(t.Context(), w.Shop, int32(today))
			return granted, err
		})
		run(t, w, c)
	})
}
