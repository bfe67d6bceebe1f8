package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

const (
	connectionMembers = "id name kind identity workspace_id workspace account_id account revision healthy note created_at"
	propertyMembers   = "id gsc_property domain slug display_name type permission_level starred archived healthy note workspace_id " +
		"connection_id created_at"
	annotationMembers = "id date title note color created_at"
)

// TestAgainstSearchConsole covers the commands that call Search Console, and those that need a property.
func TestAgainstSearchConsole(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs more than a hundred commands")
	}
	people, simulator := simulate(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cli)
	}{
		{"connections", testConnections},
		{"credentials that do not work", testBadCredentials},
		{"properties", testProperties},
		{"properties out of reach", testUnreachedProperties},
		{"import", testImport},
		{"brand terms", testBrandTerms},
		{"page groups", testPageGroups},
		{"annotations", testAnnotations},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCLI(t).against(people)
			c.ok("account", "add", "Acme", "--plan", "pro")
			c.ok("workspace", "add", "Acme", "Web")
			test.run(t, c)
			c.keptSecrets(people)
		})
	}
	t.Run("Search Console is down", func(t *testing.T) { testOutage(t, newCLI(t).against(people), simulator) })
}

// keptSecrets checks that no secret was printed or stored in plain text.
func (c *cli) keptSecrets(people *demo.Users) {
	c.t.Helper()
	stored := new(bytes.Buffer)
	files, err := filepath.Glob(c.path("sara.db*"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("there is no database file: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		stored.Write(text)
	}
	for name, secret := range secretsOf(c.t, people) {
		if strings.Contains(c.said.String(), secret) {
			c.t.Errorf("%s was printed", name)
		}
		if bytes.Contains(stored.Bytes(), []byte(secret)) {
			c.t.Errorf("%s is in the database in clear", name)
		}
	}
}

// secretsOf returns the secrets in credentials, by name.
func secretsOf(t *testing.T, people *demo.Users) map[string]string {
	t.Helper()
	secrets := map[string]string{"the secret key": secretKeyText}
	if people.Client.Secret != "" {
		secrets["the secret of the OAuth client"] = people.Client.Secret
	}
	for name, text := range people.Credentials {
		var file struct {
			PrivateKey   string `json:"private_key"`
			ClientSecret string `json:"client_secret"`
			RefreshToken string `json:"refresh_token"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		if file.PrivateKey != "" {
			secrets["the private key of "+name] = strings.Split(file.PrivateKey, "\n")[1]
			continue
		}
		secrets["the client secret of "+name] = file.ClientSecret
		secrets["the refresh token of "+name] = file.RefreshToken
	}
	return secrets
}

func testConnections(t *testing.T, c *cli) {
	shop := c.object(connectionMembers, "connection", "add", "Web", "--credentials", c.path(demo.ShopConnection+".json"))
	if shop["kind"] != "service_account" || shop["name"] != "search-reader@alder-and-pine.iam.gserviceaccount.com" ||
		shop["identity"] != shop["name"] || shop["healthy"] != true || shop["workspace"] != "Web" || shop["revision"] != 1.0 {
		t.Errorf("added %v", shop)
	}
	portfolio := c.object(connectionMembers, "connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	if portfolio["kind"] != "authorized_user" || portfolio["name"] != "mine" {
		t.Errorf("added %v", portfolio)
	}
	for i, reference := range []string{"mine", c.id(portfolio), "Acme/Web/mine"} {
		updated := c.object(connectionMembers, "connection", "update", reference, "--credentials", c.path(demo.StrangerConnection+".json"))
		if updated["revision"] != float64(i+2) || c.id(updated) != c.id(portfolio) {
			t.Errorf("updated %v", updated)
		}
	}
	if list := c.array(connectionMembers, "connection", "list"); len(list) != 2 || c.id(list[0]) != c.id(shop) {
		t.Errorf("list: %v", list)
	}
	if rows := columns(c.ok("connection", "list")); !slices.Equal(rows[2][:4], []string{"mine", "Web", "Acme", "authorized_user"}) {
		t.Errorf("table: %v", rows)
	}
	c.fails(exitError, []string{"connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.ShopConnection + ".json")}, "already exists")
	c.fails(exitError, []string{"connection", "add", "Nowhere", "--credentials", c.path(demo.ShopConnection + ".json")}, "sara workspace list")
	c.fails(exitError, []string{"connection", "update", "none", "--credentials", c.path(demo.ShopConnection + ".json")}, "sara connection list")
	c.fails(exitUsage, []string{"connection", "add", "Web"}, "--credentials")
}

func testBadCredentials(t *testing.T, c *cli) {
	add := func(path string, flags ...string) []string {
		return append([]string{"connection", "add", "Web", "--credentials", path}, flags...)
	}
	revoked := add(c.path(demo.FormerConnection + ".json"))
	c.fails(exitError, revoked, "get an access token", "revoked", "sara connection update")
	if list := c.array(connectionMembers, "connection", "list"); len(list) != 0 {
		t.Errorf("a connection that does not work was stored: %v", list)
	}
	c.ok(add(c.path(demo.FormerConnection+".json"), "--no-verify")...)
	c.fails(exitError, add(c.path("nowhere.json")), "nowhere.json")
	c.fails(exitError, add(c.write("notes.txt", "hunter2 is my password")), "not a JSON object")
	c.fails(exitError, add(c.write("client.json", `{"installed":{"client_secret":"hunter2"}}`)), "OAuth client's file", "sara connection connect")
	c.fails(exitError, add(c.write("half.json", `{"type":"authorized_user","client_id":"x","client_secret":"hunter2"}`), "--no-verify"), "refresh_token")
	c.with("SARA_SECRET_KEY=c2hvcnQ=").fails(exitError, add(c.path(demo.ShopConnection+".json")), "SARA_SECRET_KEY", "it has 5 bytes, not 32")
	c.env = slices.DeleteFunc(c.env, func(v string) bool { return strings.HasPrefix(v, "SARA_SECRET_KEY") })
	c.env = append(c.env, "SARA_OAUTH_TOKEN_URL=http://127.0.0.1:1/token") // no call reaches it
	c.fails(exitError, add(c.path(demo.PortfolioConnection+".json")), "SARA_SECRET_KEY", "a new one cannot open them")
	if strings.Contains(c.said.String(), "hunter2") {
		t.Error("a file that is no credentials was quoted")
	}
}

func testProperties(t *testing.T, c *cli) {
	c.ok("connection", "add", "Web", "--name", "shop", "--credentials", c.path(demo.ShopConnection+".json"))
	c.ok("connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	main := c.object(propertyMembers, "property", "add", "shop", "sc-domain:AlderAndPine.example", "--name", "Alder & Pine", "--slug", "shop")
	want := map[string]any{"gsc_property": demo.SiteMain, "domain": "alderandpine.example", "slug": "shop", "display_name": "Alder & Pine",
		"type": "domain", "permission_level": "siteOwner", "starred": false, "archived": false, "healthy": true, "note": ""}
	for member, value := range want {
		if main[member] != value {
			t.Errorf("%s is %v, want %v", member, main[member], value)
		}
	}
	prefix := c.object(propertyMembers, "property", "add", "Web/mine", demo.SitePrefix)
	if prefix["slug"] != "www-harborcoffee-example-shop" || prefix["type"] != "url_prefix" || prefix["permission_level"] != "siteFullUser" {
		t.Errorf("added %v", prefix)
	}
	for _, reference := range []string{c.id(main), demo.SiteMain, "shop", "alderandpine.example"} {
		for _, step := range []struct {
			verb   []string
			member string
			want   bool
		}{
			{[]string{"archive"}, "archived", true}, {[]string{"restore"}, "archived", false},
			{[]string{"star"}, "starred", true}, {[]string{"star", "--off"}, "starred", false},
		} {
			p := c.object(propertyMembers, append(append([]string{"property"}, step.verb...), reference)...)
			if c.id(p) != c.id(main) || p[step.member] != step.want {
				t.Errorf("%v %s: %v", step.verb, reference, p)
			}
		}
	}
	if list := c.array(propertyMembers, "property", "list"); len(list) != 2 || list[0]["display_name"] != "Alder & Pine" {
		t.Errorf("list: %v", list)
	}
	if table := c.ok("property", "list"); !strings.Contains(table, demo.SitePrefix) || !strings.HasPrefix(table, "NAME") {
		t.Errorf("table:\n%s", table)
	}
	c.fails(exitError, []string{"property", "add", "shop", demo.SiteMain}, "already exists")
	c.fails(exitError, []string{"property", "archive", "nowhere"}, `there is no property "nowhere"`, "sara property list")
}

func testUnreachedProperties(t *testing.T, c *cli) {
	c.ok("connection", "add", "Web", "--name", "shop", "--credentials", c.path(demo.ShopConnection+".json"))
	c.ok("connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	c.ok("connection", "add", "Web", "--name", "former", "--no-verify", "--credentials", c.path(demo.FormerConnection+".json"))
	add := func(connection, site string, flags ...string) []string {
		return append([]string{"property", "add", connection, site}, flags...)
	}
	c.fails(exitError, add("shop", "sc-domain:elsewhere.example"), "does not reach sc-domain:elsewhere.example",
		"add search-reader@alder-and-pine.iam.gserviceaccount.com as a user of the property in Search Console")
	c.fails(exitError, add("shop", "https://www.alderandpine.example/"), "but it does reach "+demo.SiteMain)
	c.fails(exitError, add("mine", demo.SiteUnverified), "has not verified it", "verify the property with the connected Google account")
	c.fails(exitError, add("former", demo.SiteDisconnected), "revoked", "sara connection update")
	c.fails(exitError, add("shop", "alderandpine.example"), "write sc-domain:example.com")
	c.fails(exitError, add("none", demo.SiteMain), "sara connection list")
	c.fails(exitUsage, []string{"property", "add", "shop"}, "gsc_property")
	added := c.object(propertyMembers, add("former", demo.SiteDisconnected, "--no-verify")...)
	if added["permission_level"] != "" {
		t.Errorf("the property was verified despite --no-verify: %v", added)
	}
}

func testImport(t *testing.T, c *cli) {
	connection := c.object(connectionMembers, "connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	kept := c.object(propertyMembers, "property", "add", "mine", demo.SiteFresh, "--name", "Sundial", "--slug", "sundial")
	first := c.array(propertyMembers+" result", "property", "import", "mine")
	results := make(map[any]any)
	for _, p := range first {
		results[p["gsc_property"]] = p["result"]
	}
	if len(first) != 6 || results[demo.SiteLate] != "added" || results[demo.SiteFresh] != "kept" || results[demo.SitePrefix] != "added" || results[demo.SiteTwin] != "added" || results[demo.SiteArchived] != "added" {
		t.Errorf("first import: %v", results)
	}
	if !strings.Contains(c.lastErrs, "skipped "+demo.SiteUnverified) {
		t.Errorf("skipped sites are not reported: %q", c.lastErrs)
	}
	again := c.array(propertyMembers+" result", "property", "import", c.id(connection))
	for i, p := range again {
		if p["result"] != "kept" || c.id(p) != c.id(first[i]) {
			t.Errorf("second import: %v", p)
		}
	}
	list := c.array(propertyMembers, "property", "list")
	if len(list) != 6 || !slices.ContainsFunc(list, func(p map[string]any) bool { return c.id(p) == c.id(kept) && p["slug"] == "sundial" }) {
		t.Errorf("after two imports: %v", list)
	}
	if rows := columns(c.ok("property", "import", "mine")); rows[0][0] != "RESULT" || rows[1][0] != "kept" {
		t.Errorf("table: %v", rows)
	}
	c.fails(exitError, []string{"property", "import", "none"}, "sara connection list")
}

// withProperty adds the main property and returns its id.
func (c *cli) withProperty() string {
	c.t.Helper()
	c.ok("connection", "add", "Web", "--name", "shop", "--credentials", c.path(demo.ShopConnection+".json"))
	return c.id(c.object(propertyMembers, "property", "add", "shop", demo.SiteMain, "--slug", "shop"))
}

func testBrandTerms(t *testing.T, c *cli) {
	id := c.withProperty()
	set := c.object("id terms", "brand-terms", "set", "shop", "alder", "exact:alder & pine", `regex:al+der,?\s*pine`)
	if set["id"] != id || len(set["terms"].([]any)) != 3 {
		t.Errorf("set: %v", set)
	}
	const members = "id term match_type created_at"
	list := c.array(members, "brand-terms", "list", id)
	for i, want := range [][2]string{{"alder", "contains"}, {"alder & pine", "exact"}, {`al+der,?\s*pine`, "regex"}} {
		if list[i]["term"] != want[0] || list[i]["match_type"] != want[1] {
			t.Errorf("term %d is %v, want %v", i, list[i], want)
		}
	}
	if rows := columns(c.ok("brand-terms", "set", "shop", "pine")); len(rows) != 2 || rows[1][0] != "pine" {
		t.Errorf("table: %v", rows)
	}
	c.fails(exitError, []string{"brand-terms", "set", "shop"}, "--clear")
	c.fails(exitError, []string{"brand-terms", "set", "shop", "x", "--clear"}, "--clear")
	c.fails(exitError, []string{"brand-terms", "set", "shop", "regex:("}, `"regex:("`, "RE2")
	c.fails(exitError, []string{"brand-terms", "list", "nowhere"}, "sara property list")
	if cleared := c.object("id terms", "brand-terms", "set", "shop", "--clear"); len(cleared["terms"].([]any)) != 0 {
		t.Errorf("cleared: %v", cleared)
	}
}

func testPageGroups(t *testing.T, c *cli) {
	id := c.withProperty()
	good := c.write("groups.json", `[{"name":"Blog","rules":[{"type":"prefix","value":"/blog/"},{"type":"equals","value":"/"}]},
		{"name":"Docs","rules":[{"type":"regex","value":"/docs/.+"},{"type":"contains","value":"manual"}]}]`)
	set := c.object("id groups", "page-groups", "set", "shop", "--file", good)
	if set["id"] != id || len(set["groups"].([]any)) != 2 {
		t.Errorf("set: %v", set)
	}
	list := c.array("id name rules created_at", "page-groups", "list", "shop")
	if list[0]["name"] != "Blog" || len(list[0]["rules"].([]any)) != 2 || list[1]["name"] != "Docs" {
		t.Errorf("list: %v", list)
	}
	if table := c.ok("page-groups", "list", "shop"); !strings.Contains(table, "prefix:/blog/ or equals:/") {
		t.Errorf("table:\n%s", table)
	}
	for text, want := range map[string]string{
		`{"name":"Blog"}`:              "is not a JSON array of",
		`null`:                         "it is null",
		`[] []`:                        "there is text after the array",
		`[{"name":"Blog","rule":[]}]`:  `unknown field "rule"`,
		`[{"name":"Blog","rules":[]}]`: `page group "Blog" has 0 rules`,
		`[{"name":"Blog","rules":[{"type":"glob","value":"x"}]}]`: `type "glob" is not one of prefix, contains, equals, regex`,
	} {
		c.fails(exitError, []string{"page-groups", "set", "shop", "--file", c.write("bad.json", text)}, want)
	}
	c.fails(exitError, []string{"page-groups", "set", "shop", "--file", c.path("none.json")}, "none.json")
	c.fails(exitUsage, []string{"page-groups", "set", "shop"}, "--file")
	if list := c.array("id name rules created_at", "page-groups", "list", "shop"); len(list) != 2 {
		t.Errorf("a file that was refused changed the groups: %v", list)
	}
}

func testAnnotations(t *testing.T, c *cli) {
	id := c.withProperty()
	relaunch := c.object(annotationMembers, "annotation", "add", "shop", "--date", "2026-03-01", "--title", "Relaunch", "--note", "All of it.", "--color", "#00ff00")
	if relaunch["date"] != "2026-03-01" || relaunch["title"] != "Relaunch" || relaunch["note"] != "All of it." || relaunch["color"] != "#00ff00" {
		t.Errorf("added %v", relaunch)
	}
	if plain := c.object(annotationMembers, "annotation", "add", id, "--date", "2026-02-01", "--title", "Update"); plain["note"] != "" || plain["color"] != "blue" {
		t.Errorf("added %v", plain)
	}
	if list := c.array(annotationMembers, "annotation", "list", "shop"); len(list) != 2 || list[0]["title"] != "Update" {
		t.Errorf("list: %v", list)
	}
	if removed := c.object("id", "annotation", "remove", c.id(relaunch)); c.id(removed) != c.id(relaunch) {
		t.Errorf("removed %v", removed)
	}
	if rows := columns(c.ok("annotation", "list", "shop")); len(rows) != 2 || !slices.Equal(rows[1][:2], []string{"2026-02-01", "Update"}) {
		t.Errorf("table: %v", rows)
	}
	c.fails(exitError, []string{"annotation", "remove", c.id(relaunch)}, "there is no annotation", "sara annotation list PROPERTY")
	c.fails(exitError, []string{"annotation", "add", "shop", "--date", "2026-02-01", "--title", "x", "--color", "mauve"}, `"mauve" is not red`)
	c.fails(exitUsage, []string{"annotation", "add", "shop", "--date", "2026-02-30", "--title", "x"}, "--date", "YYYY-MM-DD")
	c.fails(exitUsage, []string{"annotation", "add", "shop", "--date", "2026-02-01"}, "--title")
}

func testOutage(t *testing.T, c *cli, simulator *gscsim.Server) {
	if err := simulator.SetFaults(gscsim.Faults{Status: 403, Reason: "quotaExceeded"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = simulator.SetFaults(gscsim.Faults{}) })
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	add := []string{"connection", "add", "Web", "--credentials", c.path(demo.ShopConnection + ".json")}
	c.fails(exitError, add, "list the sites of search-reader@", "quota", "--no-verify")
	c.ok(append(add, "--no-verify")...)
}
