package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
)

// The members that --json prints.
const (
	accountMembers   = "id name plan until created_at"
	workspaceMembers = "id name account_id account created_at"
	personMembers    = "id email account_id account workspaces created_at"
)

func TestAccounts(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	acme := c.Object(accountMembers, "account", "add", "Acme", "--plan", "pro")
	if acme["name"] != "Acme" || acme["plan"] != "pro" || acme["until"] != nil {
		t.Errorf("added %v", acme)
	}
	lapsed := c.Object(accountMembers, "account", "add", "Lapsed", "--plan=agency", "--until=2020-02-29")
	if lapsed["until"] != "2020-02-29" {
		t.Errorf("a plan may have ended in the past, but until is %v", lapsed["until"])
	}
	for _, reference := range []string{"Acme", c.ID(acme)} {
		changed := c.Object(accountMembers, "account", "plan", reference, "trial", "--until", "2030-01-01")
		if c.ID(changed) != c.ID(acme) || changed["plan"] != "trial" || changed["until"] != "2030-01-01" {
			t.Errorf("plan of %s: %v", reference, changed)
		}
	}
	if renewed := c.Object(accountMembers, "account", "plan", "Acme", "none"); renewed["until"] != nil {
		t.Errorf("a plan without --until does not end, but until is %v", renewed["until"])
	}
	if list := c.Array(accountMembers, "account", "list"); len(list) != 2 || c.ID(list[0]) != c.ID(acme) {
		t.Errorf("list: %v", list)
	}
	rows := columns(c.OK("account", "list"))
	if !reflect.DeepEqual(rows[0], []string{"NAME", "PLAN", "UNTIL", "CREATED", "ID"}) ||
		!slices.Equal(rows[2][:3], []string{"Lapsed", "agency", "2020-02-29"}) {
		t.Errorf("table: %v", rows)
	}
	c.Fails(ExitError, []string{"account", "add", "Acme", "--plan", "pro"}, `account "Acme" already exists`)
	c.Fails(ExitError, []string{"account", "add", "New", "--plan", "gold"}, `plan "gold" is not one of agency, none, own, pro, trial`)
	c.Fails(ExitError, []string{"account", "plan", "Nobody", "pro"}, `there is no account "Nobody"`, "sara account list")
	c.Fails(ExitUsage, []string{"account", "add", "New"}, "--plan", "sara account add --help")
	c.Fails(ExitUsage, []string{"account", "add", "New", "--plan", "pro", "--until", "tomorrow"}, "--until", "YYYY-MM-DD")
}

// Archived history that a plan does not keep is deleted, so that a plan that keeps less than the one before comes with a warning.
func TestPlanThatKeepsLessIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	for _, change := range []struct{ plan, warning string }{
		{"agency", ""}, {"agency", ""},
		{"none", "sara: none keeps 16 months of history, and agency kept 60: the next collection deletes archived days before 20"},
		{"trial", ""}, {"own", ""},
		{"pro", "sara: pro keeps 36 months of history, and own kept 240: the next collection deletes archived days before 20"},
	} {
		_, _, said := c.Run("account", "plan", "Acme", change.plan, "--json")
		if !strings.HasPrefix(said, change.warning) || (said == "") != (change.warning == "") {
			t.Errorf("%s: %q", change.plan, said)
		}
	}
}

// TestHintsCanBePasted runs the hints of each command, with special characters in names and a database named by a flag.
func TestHintsCanBePasted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := clitest.New(t, sara)
	database := "sqlite:" + c.Path("odd name.db")
	said := func(want string, args ...string) {
		t.Helper()
		c.OK(append(args, "--database-url", database)...)
		if want += " --database-url '" + database + "'\n"; !strings.Contains(c.LastErrs, "\nNext: ") || !strings.Contains(c.LastErrs, "\n  sara "+want) {
			t.Errorf("sara %s prints\n%s\nwant the line %s", strings.Join(args, " "), c.LastErrs, want)
		}
	}
	said("account add NAME --plan own", "migrate")
	said(`workspace add 'Ann'\''s' Main`, "account", "add", "Ann's", "--plan", "pro")
	said("serve", "migrate")
	said("connection add 'My web' --credentials FILE", "workspace", "add", "Ann's", "My web")
	c.OK("account", "add", "Bob", "--plan", "pro", "--database-url", database)
	twin := c.ID(c.Object(workspaceMembers, "workspace", "add", "Bob", "Web", "--database-url", database))
	if c.LastErrs != "" {
		t.Errorf("hints with --json: %s", c.LastErrs)
	}
	said("person add Bob EMAIL --workspace Twin", "workspace", "add", "Bob", "Twin")
	c.OK("account", "add", "--plan", "pro", "--database-url", database, "--", "-x")
	hint := c.LastErrs
	accounts := c.Array(accountMembers, "account", "list", "--database-url", database)
	dashed := c.ID(accounts[slices.IndexFunc(accounts, func(a map[string]any) bool { return a["name"] == "-x" })])
	if want := "\n  sara workspace add " + dashed + " Main "; !strings.Contains(hint, want) {
		t.Errorf("a name like a flag: it prints\n%s\nwant %q", hint, want)
	}
	said("person add "+dashed+" EMAIL --workspace Dashed", "workspace", "add", dashed, "Dashed")
	c.OK("workspace", "add", "Ann's", "Web", "--database-url", database)
	if strings.Contains(c.LastErrs, "--workspace Web ") || strings.Contains(c.LastErrs, twin) {
		t.Errorf("an ambiguous workspace name resolves to the wrong one:\n%s", c.LastErrs)
	}
	said("key create ann@example.com --name 'first key'", "person", "add", "Ann's", "ann@example.com", "--workspace", "My web")
	credentials := c.Write("mine.json", `{"type":"authorized_user","client_id":"id","client_secret":"x","refresh_token":"y"}`)
	said("property import mine", "connection", "add", "My web", "--name", "mine", "--no-verify", "--credentials", credentials)
	said("collect --property example-com", "property", "add", "mine", "sc-domain:example.com", "--no-verify")
	shown := c.OK("key", "create", "ann@example.com", "--name", "k", "--base-url", "https://api.example.com", "--database-url", database)
	if !strings.Contains(shown, "'https://api.example.com/v1/me'\n") || !strings.Contains(shown, "/summary'\n") {
		t.Errorf("a key is shown without requests to try:\n%s", shown)
	}
}

// What an error advises can be pasted, too: the program may not be in PATH, and without the flag it would list what another database has.
func TestAdviceCanBePasted(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, func(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
		return Program{Name: "./sara"}.Run(ctx, args, environ, stdin, stdout, stderr)
	})
	database := "sqlite:" + c.Path("odd name.db")
	c.OK("migrate", "--database-url", database)
	c.Fails(ExitError, []string{"workspace", "add", "Nobody", "Main", "--database-url", database},
		"      list them with: ./sara account list --database-url '"+database+"'\n")
}

func TestAccountsUsePlansFile(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	plans := c.Write("plans.yaml", "plans: {small: {api_access: true, keys: 1, requests_per_minute_per_key: 1, requests_per_hour: 1, "+
		"requests_per_day: 1, search_console_calls_per_day: 1, live_calls_per_minute_per_property: 1, retention_months: 1, "+
		"inspected_urls_per_property: 1}}\n")
	c.Env = append(c.Env, "SARA_PLANS_FILE="+plans)
	c.OK("account", "add", "Acme", "--plan", "small")
	c.OK("account", "plan", "Acme", "none")
	c.Fails(ExitError, []string{"account", "plan", "Acme", "big"}, `plan "big" is not one of agency, none, own, pro, small, trial`)
}

func TestWorkspacesAndPeople(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("account", "add", "Other", "--plan", "pro")
	web := c.Object(workspaceMembers, "workspace", "add", "Acme", "Web")
	c.Object(workspaceMembers, "workspace", "add", "Other", "Web")
	c.OK("workspace", "add", "Acme", "Blog")
	if list := c.Array(workspaceMembers, "workspace", "list"); len(list) != 3 || list[0]["account"] != "Acme" || list[0]["name"] != "Web" {
		t.Errorf("workspaces: %v", list)
	}
	if rows := columns(c.OK("workspace", "list")); !slices.Equal(rows[1][:2], []string{"Web", "Acme"}) {
		t.Errorf("table: %v", rows)
	}
	person := c.Object(personMembers, "person", "add", "Acme", "Ann@Example.com", "--workspace", "Web", "--workspace", "Blog")
	if person["email"] != "ann@example.com" || person["account"] != "Acme" || len(person["workspaces"].([]any)) != 2 {
		t.Errorf("added %v", person)
	}
	c.Object(personMembers, "person", "leave", "ann@example.com", "Blog")
	c.Object(personMembers, "person", "leave", c.ID(person), c.ID(web))
	joined := c.Object(personMembers, "person", "join", "ann@example.com", "Other/Web")
	if fmt.Sprint(joined["workspaces"]) == fmt.Sprint([]any{}) || len(joined["workspaces"].([]any)) != 1 {
		t.Errorf("joined: %v", joined)
	}
	if list := c.Array(personMembers, "person", "list"); len(list) != 1 || c.ID(list[0]) != c.ID(person) {
		t.Errorf("people: %v", list)
	}
	if rows := columns(c.OK("person", "list")); !slices.Equal(rows[1][:3], []string{"ann@example.com", "Acme", "Web"}) {
		t.Errorf("table: %v", rows)
	}
	c.Fails(ExitError, []string{"person", "leave", "ann@example.com", "Blog"}, `there is no workspace of ann@example.com "Blog"`, "sara person list")
	c.Fails(ExitError, []string{"person", "join", "bob@example.com", "Web"}, `there is no person "bob@example.com"`, "sara person list")
	c.Fails(ExitError, []string{"person", "join", "ann@example.com", "Nowhere"}, `there is no workspace "Nowhere"`, "sara workspace list")
	c.Fails(ExitUsage, []string{"person", "add", "Acme", "not an address", "--workspace", "Web"}, "must be an address like name@example.com")
	c.Fails(ExitError, []string{"person", "add", "Acme", "ann@example.com", "--workspace", "Web"}, "already exists")
	c.Fails(ExitUsage, []string{"person", "add", "Acme", "cat@example.com"}, "--workspace")
	c.OK("account", "add", "Third", "--plan", "pro")
	c.Fails(ExitError, []string{"person", "add", "Third", "dan@example.com", "--workspace", "Web"}, "ambiguous", "Acme/Web", "Other/Web")
	c.Fails(ExitError, []string{"workspace", "add", "Acme", "Web"}, "already exists")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	person := c.Object(personMembers, "person", "add", "Acme", "ann@example.com", "--workspace", "Web")

	first := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "first")
	if text, _ := first["key"].(string); !strings.HasPrefix(text, "sara_live_") {
		t.Errorf("key: %v", first)
	}
	if fmt.Sprint(first["scopes"]) != "[properties:read performance:read indexing:read config:read]" || first["expires_at"] != nil ||
		first["workspace"] != nil {
		t.Errorf("by default a key has all scopes, no expiry and no restriction: %v", first)
	}

	before := time.Now()
	second := c.Object(clitest.KeyMembers+" key", "key", "create", c.ID(person), "--name", "second", "--scope", "config:read",
		"--scope", "properties:read", "--workspace", "Web", "--expires-in-days", "3650")
	if fmt.Sprint(second["scopes"]) != "[properties:read config:read]" || second["workspace"].(map[string]any)["name"] != "Web" {
		t.Errorf("limited key: %v", second)
	}
	expires, err := time.Parse(time.RFC3339, fmt.Sprint(second["expires_at"]))
	if err != nil || expires.Before(before.AddDate(0, 0, 3650).Add(-time.Minute)) || expires.After(time.Now().AddDate(0, 0, 3650).Add(time.Minute)) {
		t.Errorf("expires at %v (%v)", second["expires_at"], err)
	}

	shown := c.OK("key", "create", "ann@example.com", "--name", "third", "--key-prefix", "acme")
	if !strings.Contains(shown, "\nacme_live_") || !strings.Contains(shown, "not shown again") ||
		!strings.Contains(shown, "curl -H 'Authorization: Bearer acme_live_") || !strings.Contains(shown, "'http://127.0.0.1:8080/v1/me'") {
		t.Errorf("a key is shown with the next steps:\n%s", shown)
	}

	c.Fails(ExitError, []string{"key", "create", "ann@example.com", "--name", "fourth"},
		`account "Acme" is on plan "pro", which allows 3 working API keys: revoke one or change the plan`)
	revoked := c.Object(clitest.KeyMembers, "key", "revoke", c.ID(first))
	if revoked["revoked_at"] == nil {
		t.Errorf("revoked: %v", revoked)
	}
	c.OK("key", "create", "ann@example.com", "--name", "fourth")
	c.OK("account", "plan", "Acme", "trial")
	c.Fails(ExitError, []string{"key", "create", "ann@example.com", "--name", "fifth"},
		`account "Acme" is on plan "trial", which has no API access: change the plan with`)

	list := c.Array(clitest.KeyMembers, "key", "list", "ann@example.com")
	if len(list) != 4 || c.ID(list[0]) != c.ID(first) || list[0]["revoked_at"] == nil {
		t.Errorf("list: %v", list)
	}
	if table := c.OK("key", "list", "ann@example.com"); strings.Contains(table, "_live_") || len(columns(table)) != 5 {
		t.Errorf("table:\n%s", table)
	}
	c.Fails(ExitError, []string{"key", "revoke", "no-such-key"}, `there is no key "no-such-key"`, "sara key list EMAIL")
	c.Fails(ExitError, []string{"key", "list", "bob@example.com"}, `there is no person "bob@example.com"`)
}

// expiresIn creates a key, and returns after how many days it expires.
func expiresIn(c *clitest.CLI, create []string) int {
	c.T.Helper()
	key := c.Object(clitest.KeyMembers+" key", create...)
	expires, err := time.Parse(time.RFC3339, key["expires_at"].(string))
	if err != nil {
		c.T.Fatal(err)
	}
	return int(math.Round(time.Until(expires).Hours() / 24))
}

func TestKeyBounds(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "agency")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("workspace", "add", "Acme", "Blog")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	create := func(flags ...string) []string { return append([]string{"key", "create", "ann@example.com"}, flags...) }
	c.OK(create("--name", strings.Repeat("ä", 80), "--expires-in-days", "1")...)
	c.Fails(ExitUsage, create("--name", strings.Repeat("ä", 81)), "81 characters", "1 to 80")
	c.Fails(ExitUsage, create("--name", ""), "--name: it is empty", "see sara key create --help")
	c.Fails(ExitUsage, create("--name", "k", "--expires-in-days", "0"), "--expires-in-days 0 is not a number of 1 to 3650")
	c.Fails(ExitUsage, create("--name", "k", "--expires-in-days", "3651"), "1 to 3650")
	c.Fails(ExitUsage, create("--name", "k", "--scope", "everything"), `unknown scope "everything": use properties:read`)
	c.Fails(ExitUsage, create("--name", "k", "--scope", "config:read", "--scope", "config:read"), "given twice")
	for _, flag := range []string{"--scope", "--from", "--workspace"} {
		c.Fails(ExitUsage, create("--name", "k", flag, ""), flag, "it is empty")
	}
	c.Fails(ExitUsage, create("--name", "k", "--scope", "config:read,"), "--scope: it is empty")
	c.Fails(ExitError, create("--name", "k", "--workspace", "Blog"), `there is no workspace of ann@example.com "Blog"`)
	c.Fails(ExitUsage, create("--name", "k", "--key-prefix", "Not!"), "SARA_KEY_PREFIX")
	if days := expiresIn(c, create("--name", "rule", "--key-max-days", "90")); days != 90 {
		t.Errorf("a key expires in %d days, want 90", days)
	}
	if days := expiresIn(c, create("--name", "shorter", "--key-max-days", "90", "--expires-in-days", "30")); days != 30 {
		t.Errorf("a key expires in %d days, want 30", days)
	}
	for created, want := range map[string]int{"90": 30, "20": 20} { // the old key's days, and the most
		old := c.Object(clitest.KeyMembers+" key", create("--name", "of "+created, "--expires-in-days", created)...)
		if days := expiresIn(c, []string{"key", "rotate", c.ID(old), "--key-max-days", "30"}); days != want {
			t.Errorf("of a key with %s days, the next expires in %d days, want %d", created, days, want)
		}
	}
	forever := c.Object(clitest.KeyMembers+" key", create("--name", "without end")...)
	if days := expiresIn(c, []string{"key", "rotate", c.ID(forever), "--key-max-days", "30"}); days != 30 {
		t.Errorf("of a key without end, the next expires in %d days, want 30", days)
	}
	c.Fails(ExitUsage, create("--name", "k", "--key-max-days", "90", "--expires-in-days", "91"), "--expires-in-days 91 is not a number of 1 to 90")
	c.Fails(ExitUsage, create("--name", "k", "--key-max-days", "0"), "SARA_KEY_MAX_DAYS", "1 to 3650")
	c.Fails(ExitUsage, create(), "--name")
	c.Fails(ExitUsage, create("--name", "k", "--expires-in-days", "soon"), "--expires-in-days")
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	for args, want := range map[string]string{
		"--version": "no space left", "version": "no space left", "--help": "no space left", "key create --help": "no space left",
		"account list":                               "no space left",
		"key create ann@example.com --name k":        " is stored, but was not printed: revoke it, and create another one: ",
		"key create ann@example.com --name j --json": "was not printed",
	} {
		var errs strings.Builder
		if status := sara(t.Context(), strings.Fields(args), c.Env, nil, fullDisk{}, &errs); status != ExitError || !strings.Contains(errs.String(), want) {
			t.Errorf("sara %s: status %d, %q", args, status, &errs)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	c := clitest.NewFresh(t, sara)
	if first := c.Object("applied", "migrate"); first["applied"].(float64) < 1 {
		t.Errorf("the first time: %v", first)
	}
	if again := c.Object("applied", "migrate"); again["applied"] != 0.0 {
		t.Errorf("again: %v", again)
	}
	if rows := columns(c.OK("migrate")); !slices.Equal(rows[1], []string{"0"}) {
		t.Errorf("table: %v", rows)
	}
}

// An init container lets a replica start from a snapshot while PostgreSQL is away; other errors still keep it from starting.
func TestMigrateIfReachable(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	away := []string{"migrate", "--database-url", "postgres://sara@127.0.0.1:1/sara"}
	c.Fails(ExitError, away, "SARA_DATABASE_URL", "connection refused")
	if said := c.OK(append(away, "--if-reachable")...); said != "" || !strings.Contains(c.LastErrs, "Nothing was migrated: SARA_DATABASE_URL") {
		t.Errorf("it prints %q and %q", said, c.LastErrs)
	}
	if first := c.Object("applied", "migrate", "--if-reachable", "--database-url", "sqlite:"+c.Path("new.db")); first["applied"].(float64) < 1 {
		t.Errorf("a database that is there: %v", first)
	}
	odd := c.Write("odd.db", strings.Repeat("not a database ", 1000))
	c.Fails(ExitError, []string{"migrate", "--if-reachable", "--database-url", "sqlite:" + odd}, "file is not a database")
	long := c.Path(strings.Repeat("a", 300)) // no folder can have this name
	c.Fails(ExitError, []string{"migrate", "--if-reachable", "--database-url", "sqlite:" + long + "/sara.db"}, "file name too long")
}

func TestEmptyListsPrintEmptyArrays(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for _, list := range []string{"account", "workspace", "person", "connection", "property"} {
		if text := c.OK(list, "list", "--json"); text != "[]\n" {
			t.Errorf("sara %s list --json prints %q", list, text)
		}
		if text := c.OK(list, "list"); len(columns(text)) != 1 {
			t.Errorf("sara %s list prints more than the header: %q", list, text)
		}
	}
}

func TestOpenAPINamesBaseURL(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for _, test := range []struct{ want, flag string }{
		{"http://127.0.0.1:8080", ""}, {"http://127.0.0.1:9999", "--listen=0.0.0.0:9999"},
		{"https://api.example.com", "--base-url=https://api.example.com"},
	} {
		var document struct {
			OpenAPI string
			Servers []struct{ URL string }
		}
		text := c.OK(strings.Fields("openapi " + test.flag)...)
		if err := json.Unmarshal([]byte(text), &document); err != nil || document.OpenAPI == "" || document.Servers[0].URL != test.want {
			t.Errorf("openapi %s: %v, %+v, want the server %s", test.flag, err, document, test.want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Fails(ExitUsage, nil, "expected one of", "see sara --help")
	c.Fails(ExitUsage, []string{"frobnicate"}, "frobnicate", "see sara --help")
	c.Fails(ExitUsage, []string{"account", "add", "caf\xe9", "--plan", "pro"}, `"caf\xe9" is not text in UTF-8`) // a terminal in Latin-1
	c.Fails(ExitUsage, []string{"account"}, "see sara account --help")
	c.Fails(ExitUsage, []string{"account", "list", "--frob"}, "--frob", "see sara account list --help")
	c.Fails(ExitUsage, []string{"account", "list", "extra"}, "extra")
	c.Fails(ExitUsage, []string{"person", "add", "Acme", "ann@example.com", "--workspace", ""}, "--workspace: it is empty: give it a value")
	for _, flag := range []string{
		"property add google sc-domain:shop.example --slug", "connection add Main --credentials x.json --name", "collect --property", "inspect --property",
		"property list --workspace", "archive verify --property", "archive export shop --from 2025-01-01 --to 2025-01-02 --format csv --output",
		"report --all --key-file", "archive import shop x.csv --format", "account list --config",
	} {
		words := strings.Fields(flag)
		c.Fails(ExitUsage, append(words, ""), words[len(words)-1]+": it is empty: leave the flag out, or give it a value")
	}
	for setting, flag := range map[string]string{"SARA_DATABASE_URL": "--database-url", "SARA_SECRET_KEY": "--secret-key"} {
		c.Fails(ExitUsage, []string{"account", "list", flag, ""}, setting+" ("+flag+"): it is empty: leave the flag out, or give it a value")
	}
	for _, line := range []string{"backup <folder>", "restore <folder>", "property remove <property>", "brand-terms set shop <term>", "report <property>"} {
		words := strings.Fields(line)
		c.Fails(ExitUsage, append(words[:len(words)-1], ""), words[len(words)-1], "it is empty: give it a value")
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	if help := c.OK("--help"); !strings.Contains(help, "key create") {
		t.Errorf("help:\n%s", help)
	}
	if help := c.OK("serve", "--help"); !strings.Contains(help, "SARA_ADMIN_LISTEN") || !strings.Contains(help, "127.0.0.1:9090") {
		t.Errorf("help of serve names settings and defaults:\n%s", help)
	}
	c.Object("version revision date go", "version")
}

func TestMissingPrerequisitesAreReportedFirst(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	if !strings.Contains(c.LastErrs, "sara connection add Web --credentials FILE") || !strings.Contains(c.LastErrs, "sara key create ann@example.com") {
		t.Errorf("without a connection: %s", c.LastErrs)
	}
	credentials := c.Write("mine.json", `{"type":"authorized_user","client_id":"id","client_secret":"hunter2","refresh_token":"hunter2"}`)
	add := []string{"connection", "add", "Web", "--name", "mine", "--no-verify", "--credentials", credentials}
	without := c.With("SARA_SECRET_KEY=")
	without.Fails(ExitError, add, "set SARA_SECRET_KEY to 32 random bytes", "keep it: serving needs the same key")
	c.OK(add...)
	without.Fails(ExitError, add,
		"SARA_SECRET_KEY: it is not set: set it to the key that encrypted the stored connections (1); a new one cannot open them")
	c.OK("person", "add", "Acme", "bob@example.com", "--workspace", "Web")
	if strings.Contains(c.LastErrs, "connection add") {
		t.Errorf("with a connection: %s", c.LastErrs)
	}
}

// columns returns the words of a table's lines, so that tests do not depend on its spaces.
func columns(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}
