package command

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

// The members that --json prints.
const (
	connectionMembers = "id name kind identity workspace_id workspace account_id account revision healthy note created_at"
	annotationMembers = "id date title note color created_at"
)

// TestAgainstSearchConsole covers the commands that call Search Console, and those that need a property.
func TestAgainstSearchConsole(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs more than a hundred commands")
	}
	people, simulator := clitest.Simulate(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *clitest.CLI)
	}{
		{"connections", testConnections},
		{"credentials that do not work", testBadCredentials},
		{"properties", testProperties},
		{"properties out of reach", testUnreachedProperties},
		{"import", testImport},
		{"an import that fails midway", testPartialImport},
		{"sharing with workspaces, one of which is unknown", testShareWithUnknownWorkspace},
		{"brand terms", testBrandTerms},
		{"page groups", testPageGroups},
		{"annotations", testAnnotations},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clitest.New(t, sara).Against(people)
			c.OK("account", "add", "Acme", "--plan", "pro")
			c.OK("workspace", "add", "Acme", "Web")
			test.run(t, c)
			c.KeptSecrets(people)
		})
	}
	t.Run("Search Console is down", func(t *testing.T) { testOutage(t, clitest.New(t, sara).Against(people), simulator) })
}

func testConnections(t *testing.T, c *clitest.CLI) {
	shop := c.Object(connectionMembers, "connection", "add", "Web", "--credentials", c.Path(demo.ShopConnection+".json"))
	if shop["kind"] != "service_account" || shop["name"] != "search-reader@alder-and-pine.iam.gserviceaccount.com" ||
		shop["identity"] != shop["name"] || shop["healthy"] != true || shop["workspace"] != "Web" || shop["revision"] != 1.0 {
		t.Errorf("added %v", shop)
	}
	portfolio := c.Object(connectionMembers, "connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	if portfolio["kind"] != "authorized_user" || portfolio["name"] != "mine" {
		t.Errorf("added %v", portfolio)
	}
	for i, reference := range []string{"mine", c.ID(portfolio), "Acme/Web/mine"} {
		updated := c.Object(connectionMembers, "connection", "update", reference, "--credentials", c.Path(demo.StrangerConnection+".json"))
		if updated["revision"] != float64(i+2) || c.ID(updated) != c.ID(portfolio) {
			t.Errorf("updated %v", updated)
		}
	}
	if list := c.Array(connectionMembers, "connection", "list"); len(list) != 2 || c.ID(list[0]) != c.ID(shop) {
		t.Errorf("list: %v", list)
	}
	if rows := columns(c.OK("connection", "list")); !slices.Equal(rows[2][:4], []string{"mine", "Web", "Acme", "authorized_user"}) {
		t.Errorf("table: %v", rows)
	}
	c.Fails(ExitError, []string{"connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.ShopConnection + ".json")}, "already exists")
	c.Fails(ExitError, []string{"connection", "add", "Nowhere", "--credentials", c.Path(demo.ShopConnection + ".json")}, "sara workspace list")
	c.Fails(ExitError, []string{"connection", "update", "none", "--credentials", c.Path(demo.ShopConnection + ".json")}, "sara connection list")
	c.Fails(ExitUsage, []string{"connection", "add", "Web"}, "--credentials")
}

func testBadCredentials(t *testing.T, c *clitest.CLI) {
	add := func(path string, flags ...string) []string {
		return append([]string{"connection", "add", "Web", "--credentials", path}, flags...)
	}
	revoked := add(c.Path(demo.FormerConnection + ".json"))
	c.Fails(ExitError, revoked, "get an access token", "revoked", "sara connection update")
	if list := c.Array(connectionMembers, "connection", "list"); len(list) != 0 {
		t.Errorf("a connection that does not work was stored: %v", list)
	}
	c.OK(add(c.Path(demo.FormerConnection+".json"), "--no-verify")...)
	c.Fails(ExitError, add(c.Path("nowhere.json")), "nowhere.json")
	c.Fails(ExitError, add(c.Write("notes.txt", "hunter2 is my password")), "not a JSON object")
	c.Fails(ExitError, add(c.Write("client.json", `{"installed":{"client_secret":"hunter2"}}`)), "OAuth client's file", "sara connection connect")
	c.Fails(ExitError, add(c.Write("half.json", `{"type":"authorized_user","client_id":"x","client_secret":"hunter2"}`), "--no-verify"), "refresh_token")
	c.With("SARA_SECRET_KEY=c2hvcnQ=").Fails(ExitError, add(c.Path(demo.ShopConnection+".json")), "SARA_SECRET_KEY", "it has 5 bytes, not 32")
	c.Env = slices.DeleteFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "SARA_SECRET_KEY") })
	c.Env = append(c.Env, "SARA_OAUTH_TOKEN_URL=http://127.0.0.1:1/token") // no call reaches it
	c.Fails(ExitError, add(c.Path(demo.PortfolioConnection+".json")), "SARA_SECRET_KEY", "a new one cannot open them")
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a file that is no credentials was quoted")
	}
}

func testProperties(t *testing.T, c *clitest.CLI) {
	c.OK("connection", "add", "Web", "--name", "shop", "--credentials", c.Path(demo.ShopConnection+".json"))
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	main := c.Object(clitest.PropertyMembers, "property", "add", "shop", "sc-domain:AlderAndPine.example", "--name", "Alder & Pine", "--slug", "shop")
	want := map[string]any{"gsc_property": demo.SiteMain, "domain": "alderandpine.example", "slug": "shop", "display_name": "Alder & Pine",
		"type": "domain", "permission_level": "siteOwner", "starred": false, "archived": false, "healthy": true, "note": ""}
	for member, value := range want {
		if main[member] != value {
			t.Errorf("%s is %v, want %v", member, main[member], value)
		}
	}
	prefix := c.Object(clitest.PropertyMembers, "property", "add", "Web/mine", demo.SitePrefix)
	if prefix["slug"] != "www-harborcoffee-example-shop" || prefix["type"] != "url_prefix" || prefix["permission_level"] != "siteFullUser" {
		t.Errorf("added %v", prefix)
	}
	for _, reference := range []string{c.ID(main), demo.SiteMain, "shop", "alderandpine.example"} {
		for _, step := range []struct {
			verb   []string
			member string
			want   bool
		}{
			{[]string{"archive"}, "archived", true}, {[]string{"restore"}, "archived", false},
			{[]string{"star"}, "starred", true}, {[]string{"star", "--off"}, "starred", false},
		} {
			p := c.Object(clitest.PropertyMembers, append(append([]string{"property"}, step.verb...), reference)...)
			if c.ID(p) != c.ID(main) || p[step.member] != step.want {
				t.Errorf("%v %s: %v", step.verb, reference, p)
			}
		}
	}
	if list := c.Array(clitest.PropertyMembers, "property", "list"); len(list) != 2 || list[0]["display_name"] != "Alder & Pine" {
		t.Errorf("list: %v", list)
	}
	if table := c.OK("property", "list"); !strings.Contains(table, demo.SitePrefix) || !strings.HasPrefix(table, "NAME") {
		t.Errorf("table:\n%s", table)
	}
	c.Fails(ExitError, []string{"property", "add", "shop", demo.SiteMain}, "already exists")
	c.Fails(ExitError, []string{"property", "archive", "nowhere"}, `there is no property "nowhere"`, "sara property list")
}

func testUnreachedProperties(t *testing.T, c *clitest.CLI) {
	c.OK("connection", "add", "Web", "--name", "shop", "--credentials", c.Path(demo.ShopConnection+".json"))
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	c.OK("connection", "add", "Web", "--name", "former", "--no-verify", "--credentials", c.Path(demo.FormerConnection+".json"))
	add := func(connection, site string, flags ...string) []string {
		return append([]string{"property", "add", connection, site}, flags...)
	}
	c.Fails(ExitError, add("shop", "sc-domain:elsewhere.example"), "does not reach sc-domain:elsewhere.example",
		"add search-reader@alder-and-pine.iam.gserviceaccount.com as a user of the property in Search Console")
	c.Fails(ExitError, add("shop", "https://www.alderandpine.example/"), "but it does reach "+demo.SiteMain)
	c.Fails(ExitError, add("mine", demo.SiteUnverified), "has not verified it", "verify the property with the connected Google account")
	c.Fails(ExitError, add("former", demo.SiteDisconnected), "revoked", "sara connection update")
	c.Fails(ExitUsage, add("shop", "alderandpine.example"), "write sc-domain:example.com")
	c.Fails(ExitError, add("none", demo.SiteMain), "sara connection list")
	c.Fails(ExitUsage, []string{"property", "add", "shop"}, "gsc_property")
	added := c.Object(clitest.PropertyMembers, add("former", demo.SiteDisconnected, "--no-verify")...)
	if added["permission_level"] != "" {
		t.Errorf("the property was verified despite --no-verify: %v", added)
	}
}

func testImport(t *testing.T, c *clitest.CLI) {
	connection := c.Object(connectionMembers, "connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	kept := c.Object(clitest.PropertyMembers, "property", "add", "mine", demo.SiteFresh, "--name", "Sundial", "--slug", "sundial")
	first := c.Array(clitest.PropertyMembers+" result", "property", "import", "mine")
	results := make(map[any]any)
	for _, p := range first {
		results[p["gsc_property"]] = p["result"]
	}
	if len(first) != 6 || results[demo.SiteLate] != "added" || results[demo.SiteFresh] != "kept" || results[demo.SitePrefix] != "added" ||
		results[demo.SiteTwin] != "added" || results[demo.SiteArchived] != "added" {
		t.Errorf("first import: %v", results)
	}
	if !strings.Contains(c.LastErrs, "skipped "+demo.SiteUnverified) {
		t.Errorf("skipped sites are not reported: %q", c.LastErrs)
	}
	again := c.Array(clitest.PropertyMembers+" result", "property", "import", c.ID(connection))
	for i, p := range again {
		if p["result"] != "kept" || c.ID(p) != c.ID(first[i]) {
			t.Errorf("second import: %v", p)
		}
	}
	list := c.Array(clitest.PropertyMembers, "property", "list")
	if len(list) != 6 || !slices.ContainsFunc(list, func(p map[string]any) bool { return c.ID(p) == c.ID(kept) && p["slug"] == "sundial" }) {
		t.Errorf("after two imports: %v", list)
	}
	if rows := columns(c.OK("property", "import", "mine")); rows[0][0] != "RESULT" || rows[1][0] != "kept" {
		t.Errorf("table: %v", rows)
	}
	c.Fails(ExitError, []string{"property", "import", "none"}, "sara connection list")
}

// What was added before a failure stays, so that the error has to say it.
func testPartialImport(t *testing.T, c *clitest.CLI) {
	connection := c.Object(connectionMembers, "connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	execSQL(t, c, "CREATE TRIGGER full BEFORE INSERT ON properties WHEN (SELECT count(*) FROM properties) = 2 BEGIN SELECT RAISE(ABORT, 'no room'); END")
	c.Fails(ExitError, []string{"property", "import", "mine"}, "sara: add ", "no room",
		"(2 properties were added before; to add the others: sara property import "+c.ID(connection)+")")
	execSQL(t, c, "DROP TRIGGER full")
	kept := 0
	for _, p := range c.Array(clitest.PropertyMembers+" result", "property", "import", c.ID(connection)) {
		if p["result"] == "kept" {
			kept++
		}
	}
	if list := c.Array(clitest.PropertyMembers, "property", "list"); kept != 2 || len(list) != 6 {
		t.Errorf("the next import keeps %d, and there are %v", kept, list)
	}
}

// A workspace that is not known stops a command before it changes anything.
func testShareWithUnknownWorkspace(t *testing.T, c *clitest.CLI) {
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	c.OK("workspace", "add", "Acme", "Client")
	c.Fails(ExitError, []string{"property", "import", "mine", "--share", "Client", "--share", "Nowhere"},
		`there is no workspace "Nowhere"`, "sara workspace list")
	if list := c.Array(clitest.PropertyMembers, "property", "list"); len(list) != 0 {
		t.Errorf("it has imported %v", list)
	}
	c.OK("property", "import", "mine")
	c.Fails(ExitError, []string{"property", "share", "*", "Client", "Nowhere"}, `there is no workspace "Nowhere"`)
	if list := c.Array(clitest.PropertyMembers, "property", "list", "--workspace", "Client"); len(list) != 0 {
		t.Errorf("it has shared %v", list)
	}
	for _, step := range []struct {
		off  []string
		want int
	}{{nil, 6}, {[]string{"--off"}, 0}} {
		shared := c.Array("id gsc_property slug shared_with", append([]string{"property", "share", "*", "Client"}, step.off...)...)
		if list := c.Array(clitest.PropertyMembers, "property", "list", "--workspace", "Client"); len(list) != step.want || len(shared) != 6 {
			t.Errorf("%v: %v are shared, want %d", step.off, list, step.want)
		}
	}
}

// execSQL changes the database behind the program's back.
func execSQL(t *testing.T, c *clitest.CLI, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", c.Path("sara.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func testBrandTerms(t *testing.T, c *clitest.CLI) {
	id := c.WithProperty()
	set := c.Object("id terms", "brand-terms", "set", "shop", "alder", "exact:alder & pine", `regex:al+der,?\s*pine`)
	if set["id"] != id || len(set["terms"].([]any)) != 3 {
		t.Errorf("set: %v", set)
	}
	const members = "id term match_type created_at"
	list := c.Array(members, "brand-terms", "list", id)
	for i, want := range [][2]string{{"alder", "contains"}, {"alder & pine", "exact"}, {`al+der,?\s*pine`, "regex"}} {
		if list[i]["term"] != want[0] || list[i]["match_type"] != want[1] {
			t.Errorf("term %d is %v, want %v", i, list[i], want)
		}
	}
	if rows := columns(c.OK("brand-terms", "set", "shop", "pine")); len(rows) != 2 || rows[1][0] != "pine" {
		t.Errorf("table: %v", rows)
	}
	c.Fails(ExitUsage, []string{"brand-terms", "set", "shop"}, "--clear")
	c.Fails(ExitUsage, []string{"brand-terms", "set", "shop", "x", "--clear"}, "--clear")
	c.Fails(ExitUsage, []string{"brand-terms", "set", "shop", "regex:("}, `"regex:("`, "RE2")
	c.Fails(ExitError, []string{"brand-terms", "list", "nowhere"}, "sara property list")
	if cleared := c.Object("id terms", "brand-terms", "set", "shop", "--clear"); len(cleared["terms"].([]any)) != 0 {
		t.Errorf("cleared: %v", cleared)
	}
}

func testPageGroups(t *testing.T, c *clitest.CLI) {
	id := c.WithProperty()
	good := c.Write("groups.json", `[{"name":"Blog","rules":[{"type":"prefix","value":"/blog/"},{"type":"equals","value":"/"}]},
		{"name":"Docs","rules":[{"type":"regex","value":"/docs/.+"},{"type":"contains","value":"manual"}]}]`)
	set := c.Object("id groups", "page-groups", "set", "shop", "--file", good)
	if set["id"] != id || len(set["groups"].([]any)) != 2 {
		t.Errorf("set: %v", set)
	}
	list := c.Array("id name rules created_at", "page-groups", "list", "shop")
	if list[0]["name"] != "Blog" || len(list[0]["rules"].([]any)) != 2 || list[1]["name"] != "Docs" {
		t.Errorf("list: %v", list)
	}
	if table := c.OK("page-groups", "list", "shop"); !strings.Contains(table, "prefix:/blog/ or equals:/") {
		t.Errorf("table:\n%s", table)
	}
	for text, want := range map[string]string{
		`{"name":"Blog"}`:              `is not a JSON array of {"name", "rules": [{"type", "value"}]}: line 1 has a JSON object in the wrong place`,
		"[\n{\"name\":7}\n]":           "line 2 has a JSON number in the wrong place",
		`null`:                         "it is null",
		"\n":                           "it is empty",
		`[] []`:                        "there is text after the array",
		`[{"name":"Blog","rule":[]}]`:  `unknown field "rule"`,
		`[{"name":"Blog","rules":[]}]`: `page group "Blog" has 0 rules`,
		`[{"name":"Blog","rules":[{"type":"glob","value":"x"}]}]`: `type "glob" is not one of prefix, contains, equals, regex`,
	} {
		c.Fails(ExitError, []string{"page-groups", "set", "shop", "--file", c.Write("bad.json", text)}, c.Path("bad.json"), want)
	}
	c.Fails(ExitError, []string{"page-groups", "set", "shop", "--file", c.Path("none.json")}, "none.json")
	c.Fails(ExitUsage, []string{"page-groups", "set", "shop"}, "--file")
	if list := c.Array("id name rules created_at", "page-groups", "list", "shop"); len(list) != 2 {
		t.Errorf("a file that was refused changed the groups: %v", list)
	}
}

func testAnnotations(t *testing.T, c *clitest.CLI) {
	id := c.WithProperty()
	relaunch := c.Object(annotationMembers, "annotation", "add", "shop", "--date", "2026-03-01", "--title", "Relaunch",
		"--note", "All of it.", "--color", "#00ff00")
	if relaunch["date"] != "2026-03-01" || relaunch["title"] != "Relaunch" || relaunch["note"] != "All of it." || relaunch["color"] != "#00ff00" {
		t.Errorf("added %v", relaunch)
	}
	if plain := c.Object(annotationMembers, "annotation", "add", id, "--date", "2026-02-01", "--title", "Update"); plain["note"] != "" ||
		plain["color"] != "blue" {
		t.Errorf("added %v", plain)
	}
	if list := c.Array(annotationMembers, "annotation", "list", "shop"); len(list) != 2 || list[0]["title"] != "Update" {
		t.Errorf("list: %v", list)
	}
	if removed := c.Object("id", "annotation", "remove", c.ID(relaunch)); c.ID(removed) != c.ID(relaunch) {
		t.Errorf("removed %v", removed)
	}
	if rows := columns(c.OK("annotation", "list", "shop")); len(rows) != 2 || !slices.Equal(rows[1][:2], []string{"2026-02-01", "Update"}) {
		t.Errorf("table: %v", rows)
	}
	c.Fails(ExitError, []string{"annotation", "remove", c.ID(relaunch)}, "there is no annotation", "sara annotation list PROPERTY")
	c.Fails(ExitUsage, []string{"annotation", "add", "shop", "--date", "2026-02-01", "--title", "x", "--color", "mauve"}, `"mauve" is not red`)
	c.Fails(ExitUsage, []string{"annotation", "add", "shop", "--date", "2026-02-01", "--title", "x", "--color", ""}, "--color: it is empty")
	c.OK("annotation", "add", "shop", "--date", "2026-02-03", "--title", "Launch", "--note", "")
	c.Fails(ExitUsage, []string{"annotation", "add", "shop", "--date", "2026-02-30", "--title", "x"}, "--date", "YYYY-MM-DD")
	c.Fails(ExitUsage, []string{"annotation", "add", "shop", "--date", "2026-02-01"}, "--title")
}

func testOutage(t *testing.T, c *clitest.CLI, simulator *gscsim.Server) {
	if err := simulator.SetFaults(gscsim.Faults{Status: 403, Reason: "quotaExceeded"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = simulator.SetFaults(gscsim.Faults{}) })
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	add := []string{"connection", "add", "Web", "--credentials", c.Path(demo.ShopConnection + ".json")}
	c.Fails(ExitError, add, "list the sites of search-reader@", "quota", "--no-verify")
	c.OK(append(add, "--no-verify")...)
}
