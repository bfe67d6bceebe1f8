package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sara/archive/atomicfile"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

// An agency is an account with four clients and a fifth one whose consent is revoked, before anything was archived.
type agency struct {
	*clitest.CLI
	key, keyFile string
	sim          *gscsim.Server
	searches     atomic.Int64 // calls of search analytics
	onSearch     atomic.Pointer[func(n int64)]
}

const (
	agencyConnection = "agency"
	leftConnection   = "left"
)

func newAgency(t *testing.T, plan string) *agency {
	t.Helper()
	a := &agency{}
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	people, err := demo.NewUsers(time.Now(), "http://"+server.Listener.Addr().String(), clitest.SharedKey)
	if err != nil {
		t.Fatal(err)
	}
	var sites []gscsim.Site
	firstDay := time.Now().UTC().AddDate(0, 0, -90).Format(time.DateOnly) // so that a series takes little time, under the race detector too
	for i := range 4 {
		sites = append(sites, gscsim.Site{URL: fmt.Sprintf("sc-domain:client%d.example", i+1), Queries: 2000, Pages: 40, FirstDay: firstDay})
	}
	if err := people.AddPerson(agencyConnection, false, sites...); err != nil {
		t.Fatal(err)
	}
	if err := people.AddPerson(leftConnection, true, gscsim.Site{URL: "sc-domain:left.example"}); err != nil {
		t.Fatal(err)
	}
	a.sim = gscsim.New(people.Simulation(time.Now))
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
			n := a.searches.Add(1)
			if on := a.onSearch.Load(); on != nil {
				(*on)(n)
			}
		}
		a.sim.ServeHTTP(w, r)
	})
	server.Start()
	a.CLI = clitest.New(t, sara).Against(people)
	a.Env = append(a.Env, "SARA_PLANS_FILE="+a.Write("plans.yaml", "plans: {agency: {"+plan+"}}\n"))
	a.OK("account", "add", "Agency", "--plan", "agency")
	a.OK("workspace", "add", "Agency", "Clients")
	a.OK("person", "add", "Agency", "ann@agency.example", "--workspace", "Clients")
	a.OK("connection", "add", "Clients", "--credentials", a.Path(agencyConnection+".json"), "--name", agencyConnection)
	a.OK("property", "import", agencyConnection)
	a.OK("connection", "add", "Clients", "--credentials", a.Path(leftConnection+".json"), "--name", leftConnection, "--no-verify")
	a.OK("property", "add", leftConnection, "sc-domain:left.example", "--no-verify")
	a.key, _ = a.Object(clitest.KeyMembers+" key", "key", "create", "ann@agency.example", "--name", "report")["key"].(string)
	a.keyFile = a.Write("key", a.key+"\n")
	return a
}

// report runs sara report against a server, and returns what it prints.
func (a *agency) report(base string, want int, args ...string) (stdout, stderr string) {
	a.T.Helper()
	status, stdout, stderr := a.Run(append([]string{"report", "--url", base, "--key-file", a.keyFile}, args...)...)
	if status != want {
		a.T.Errorf("sara report %v: status %d, want %d\n%s%s", args, status, want, stdout, stderr)
	}
	return stdout, stderr
}

// table reads a CSV file of a report by its columns.
func (a *agency) table(path ...string) []map[string]string {
	a.T.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		a.T.Fatal(err)
	}
	return rowsOf(a.T, string(text))
}

func rowsOf(t *testing.T, text string) (rows []map[string]string) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) == 0 {
		t.Fatalf("no CSV (%v): %s", err, text)
	}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func reportFiles(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(folder, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestReport writes reports as an agency does, from a real server.
func TestReport(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	binary := program(t)
	t.Run("of all properties", func(t *testing.T) {
		t.Parallel()
		a := newAgency(t, "requests_per_minute_per_key: 1000")
		server, base, _ := serving(t, binary, a.Env)
		testReportFolder(a, base)
		testReportAlone(a, base)
		testReportWholeTable(a, base)
		testReportRefusals(a, base)
		testReportArchived(a, binary, base)
		server.stopped()
		said := make(clitest.Evidence)
		said.AddFiles(t, "the folder", a.Path("all"))
		said.Add("commands", strings.ReplaceAll(a.Said.String(), `"key":"`+a.key, "")) // key create prints it
		said.Add("the server", server.stderr.String())
		if leaks := said.Leaks(map[string]string{"the key": a.key}); len(leaks) > 0 {
			t.Error(leaks)
		}
	})
	t.Run("resumed after the hour", func(t *testing.T) {
		t.Parallel()
		testReportResumed(newAgency(t, "requests_per_minute_per_key: 1000, requests_per_hour: 10"), binary)
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		testReportInterrupted(newAgency(t, "requests_per_minute_per_key: 1000"), binary)
	})
}

// One property fails, the others are written.
func testReportFolder(a *agency, base string) {
	t, folder := a.T, a.Path("all")
	args := []string{"--all", "--compare", "previous_period", "--tables", "queries,devices,timeseries", "--output", folder}
	stdout, stderr := a.report(base, command.ExitError, args...)
	wantParts(t, stdout, "13 files of 5 properties")
	wantParts(t, stderr, "left-example, portfolio: UPSTREAM_UNAVAILABLE", "left-example, queries: UPSTREAM_UNAVAILABLE",
		"1 property has no figures in the portfolio; 3 tables could not be read; repeat the command with --resume")
	portfolio := a.table(folder, "portfolio.csv")
	if len(portfolio) != 5 || portfolio[4]["slug"] != "left-example" || portfolio[4]["error.code"] != "UPSTREAM_UNAVAILABLE" ||
		portfolio[4]["totals.clicks"] != "" {
		t.Errorf("the portfolio: %v", portfolio)
	}
	for _, row := range portfolio[:4] {
		a.checkSummary(base, row)
	}
	queries := a.table(folder, "queries", "client1-example.csv")
	if len(queries) != 1000 || queries[0]["property"] != "client1-example" || queries[0]["start_date"] != portfolio[0]["start_date"] ||
		queries[0]["key"] == "" {
		t.Errorf("%d queries, the first %v", len(queries), queries[0])
	}
	for file, want := range map[string]map[string]string{
		"queries/client1-example.csv":    {"state": "written", "source": "live", "truncated_by": "clicks", "has_more": "true", "rows": "1000", "error": ""},
		"devices/client1-example.csv":    {"state": "written", "truncated_by": "", "has_more": "false", "rows": "3"},
		"timeseries/client2-example.csv": {"state": "written", "rows": "28"},
		"queries/left-example.csv":       {"state": "failed", "source": "", "rows": "0"},
	} {
		notes := a.table(folder, "notes.csv")
		at := slices.IndexFunc(notes, func(row map[string]string) bool { return row["file"] == file })
		if at < 0 {
			t.Errorf("notes.csv lacks %s", file)
			continue
		}
		for name, value := range want {
			if notes[at][name] != value {
				t.Errorf("notes.csv, %s: %s is %q, want %q", file, name, notes[at][name], value)
			}
		}
	}

	before := a.searches.Load()
	_, stderr = a.report(base, command.ExitError, args...)
	wantParts(t, stderr, folder+" is not empty. Nothing was written: repeat the command with --replace, or go on with --resume")
	a.report(base, command.ExitError, append(args, "--resume")...)
	if n := a.searches.Load() - before; n != 0 {
		t.Errorf("a resumed report asks Search Console %d times", n)
	}
	_, stderr = a.report(base, command.ExitError, append(args, "--resume", "--limit", "10")...)
	wantParts(t, stderr, "has another report, of --date-range last_28d --compare previous_period --limit 1000 --format csv")
	stdout, _ = a.report(base, command.ExitOK, "client*", "--format", "ndjson", "--tables", "devices", "--output", folder, "--replace", "--quiet")
	want := []string{"devices/client1-example.ndjson", "devices/client2-example.ndjson", "devices/client3-example.ndjson",
		"devices/client4-example.ndjson", "notes.csv", "portfolio.ndjson", "report.json"}
	if !slices.Equal(reportFiles(t, folder), want) || stdout != "" {
		t.Errorf("replaced, the folder has %v, and it prints %q", reportFiles(t, folder), stdout)
	}
	var record struct{ Complete bool }
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil || !record.Complete {
		t.Errorf("report.json (%v): %s", err, text)
	}
}

// checkSummary compares a row of the portfolio with the property's summary, digit by digit.
func (a *agency) checkSummary(base string, row map[string]string) {
	a.T.Helper()
	var answer struct {
		Data map[string]map[string]json.RawMessage
	}
	got := clitest.WantStatus(a.T, http.StatusOK, base+"/v1/properties/"+row["property_id"]+"/summary?compare=previous_period", a.key)
	if err := json.Unmarshal([]byte(got.Body), &answer); err != nil {
		a.T.Fatal(err)
	}
	for side, figures := range answer.Data {
		for name, value := range figures {
			if got := row[side+"."+name]; got != strings.Trim(string(value), `"`) {
				a.T.Errorf("%s: %s.%s is %s in the portfolio, %s in the summary", row["slug"], side, name, got, value)
			}
		}
	}
	if len(answer.Data) != 2 || row["clicks_delta"] == "" || row["start_date"] == "" {
		a.T.Errorf("the portfolio has %v", row)
	}
}

// The portfolio goes to standard output, or into one file.
func testReportAlone(a *agency, base string) {
	t := a.T
	stdout, _ := a.report(base, command.ExitOK, "client1.example", "client2*", "--date-range", "last_7d")
	if rows := rowsOf(t, stdout); len(rows) != 2 || rows[0]["totals.clicks"] == "" {
		t.Errorf("two properties: %s", stdout)
	}
	stdout, _ = a.report(base, command.ExitError, "--all", "--output", "-", "--format", "json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || len(rows) != 5 {
		t.Errorf("all properties as JSON (%v): %s", err, stdout)
	}
	file := a.Path("portfolio.ndjson")
	a.report(base, command.ExitOK, "client1-example", "--output", file)
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 1 || !json.Valid(text) {
		t.Errorf("a file (%v): %s", err, text)
	}
	_, stderr := a.report(base, command.ExitError, "client2-example", "--output", file)
	wantParts(t, stderr, file+" exists. Nothing was written: repeat the command with --replace")
	if after, err := os.ReadFile(file); err != nil || string(after) != string(text) {
		t.Errorf("the file changed (%v): %s", err, after)
	}
	a.report(base, command.ExitOK, "client2-example", "--output", file, "--replace")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// A table of more than 1,000 rows is read page by page, from at most two calls; all of them may be known already.
func testReportWholeTable(a *agency, base string) {
	t, folder, before := a.T, a.Path("whole"), a.searches.Load()
	a.report(base, command.ExitOK, "client1-example", "--tables", "queries", "--limit", "2500", "--output", folder)
	queries, keys := a.table(folder, "queries", "client1-example.csv"), make(map[string]bool)
	for _, row := range queries {
		keys[row["key"]] = true
	}
	notes := a.table(folder, "notes.csv")
	if len(queries) <= 1000 || len(keys) != len(queries) || notes[1]["rows"] != fmt.Sprint(len(queries)) || notes[1]["has_more"] != "false" ||
		notes[1]["notes"] != "" {
		t.Errorf("%d queries, %d of them different, of which is said: %v", len(queries), len(keys), notes[1])
	}
	if calls := a.searches.Load() - before; calls > 1 {
		t.Errorf("the rest of the table takes %d calls", calls)
	}
}

func testReportRefusals(a *agency, base string) {
	t, where := a.T, a.Path("refused")
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--url", closed.URL, "--key-file", a.keyFile, "--all"}, closed.URL + " does not answer: "},
		{[]string{"--url", other.URL, "--key-file", a.keyFile, "--all"},
			other.URL + " answers 404 Not Found, and not as sara does: name the public address of sara with --url"},
		{[]string{"--url", base, "--all"}, "there is no API key: set SARA_API_KEY, or name a file that has it with --key-file FILE"},
		{[]string{"--url", base, "--key-file", a.Path("nowhere"), "--all"}, a.Path("nowhere")},
		{[]string{"--url", base, "--key-file", a.Write("two", "a b"), "--all"}, "it is not an API key"},
		{[]string{"--url", base, "--key-file", a.Write("wrong", "sara_live_x"), "--all", "--output", where},
			"INVALID_API_KEY: the key is incomplete or altered: copy it again; 1 file is missing: portfolio.csv\n      check SARA_API_KEY"},
		{[]string{"--url", base, "--key-file", a.keyFile, "nothing*"}, `the key reaches no property "nothing*": --all reports those that it reaches`},
	} {
		a.Fails(command.ExitError, append([]string{"report"}, test.args...), test.want)
	}
	a.Fails(command.ExitUsage, []string{"report", "--url", base, "--api-key", a.key, "--all"},
		"SARA_API_KEY (--api-key): every user of this machine can read the command line")
	a.Fails(command.ExitUsage, []string{"report", "--url", "ftp://x", "--key-file", a.keyFile, "--all"},
		`--url "ftp://x" is not an absolute http or https URL, such as https://api.example.com`)
	if _, stderr := a.report(base, command.ExitError, "nothing*", "--output", where); strings.Contains(stderr, "repeat the command") {
		t.Errorf("a name that is wrong: %s", stderr)
	}
	if files := reportFiles(t, where); len(files) > 0 {
		t.Errorf("with a wrong key or name, it writes %v", files)
	}
	for args, want := range map[string]string{
		"": "name properties, or all of them with --all", "--all client1-example": "name properties, or all of them with --all",
		"--all --from 2026-01-01":                                      "--from and --to belong together",
		"--all --from 2026-01-02 --to 2026-01-01":                      "--from 2026-01-02 is after --to 2026-01-01",
		"--all --from 2026-01-01 --to 2026-01-01 --date-range last_7d": "leave one out",
		"--all --limit 25001":                                          "--limit 25001 is not a number of 1 to 25000",
		"--all --tables queries":                                       "--tables needs a folder",
		"--all --tables queries --output x.csv":                        "--tables needs a folder",
		"--all --resume":                                               "--resume needs the folder",
		"--all --replace --resume --output x":                          "leave one out",
		"--all --format json --output x.csv":                           "is not a file of --format json",
		"--all --tables movers --output x":                             "movers",
		"--all --max-wait 25h":                                         "--max-wait 25h0m0s is not a time of 0s to 24h",
	} {
		a.Fails(command.ExitUsage, append([]string{"report"}, strings.Fields(args)...), want)
	}
	if err := os.Chmod(a.keyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr := a.report(base, command.ExitOK, "client1-example")
	wantParts(t, stderr, "other users can read "+a.keyFile+": chmod 600")
}

// A property that is archived, because its client has left, has no figures of later days. It must not make each report from then on
// incomplete, as cron sees it.
func testReportArchived(a *agency, binary, base string) {
	t, folder := a.T, a.Path("archived")
	a.OK("property", "remove", "left.example", "--yes")
	a.OK("property", "archive", "client4.example")
	stdout, stderr := a.report(base, command.ExitOK, "--all", "--tables", "devices", "--output", folder)
	wantParts(t, stdout, "4 files of 3 properties")
	portfolio := a.table(folder, "portfolio.csv")
	if len(portfolio) != 4 || !strings.Contains(portfolio[3]["error.message"], "the property is archived") || strings.Contains(stderr, "client4") {
		t.Errorf("the portfolio: %v\n%s", portfolio, stderr)
	}
	testReportArchivedFigures(a, binary)
	key := a.Object(clitest.KeyMembers+" key", "key", "create", "ann@agency.example", "--name", "figures", "--scope", "performance:read")["key"].(string)
	stdout, stderr = a.report(base, command.ExitError, "--all", "--key-file", a.Write("figures", key))
	if rows := rowsOf(t, stdout); len(rows) != 4 || rows[3]["slug"] != "client4-example" || rows[3]["error.code"] != "VALIDATION_ERROR" {
		t.Errorf("with a key that cannot list properties: %v", rows)
	}
	wantParts(t, stderr, "client4-example, portfolio: VALIDATION_ERROR", "1 property has no figures")
	for _, slug := range []string{"client1.example", "client2.example", "client3.example"} {
		a.OK("property", "archive", slug)
	}
	stdout, _ = a.report(base, command.ExitError, "--all")
	if rows := rowsOf(t, stdout); len(rows) != 4 {
		t.Errorf("of archived properties only: %v", rows)
	}
}

// An archived property may have figures of the range, so that it can be chosen by its name. If it has none of the period before, only the
// comparison fails, and its tables are written.
func testReportArchivedFigures(a *agency, binary string) {
	t, folder := a.T, a.Path("compared")
	day := time.Now().UTC().AddDate(0, 0, -20).Format(time.DateOnly)
	a.OK("archive", "import", "client4.example", a.Write("history.csv", "date,dimension,key,clicks,impressions,position\n"+
		day+",total,,7,70,3\n"+day+",query,oven,7,70,3\n"))
	_, base, _ := serving(t, binary, a.Env) // the other server looks at an archive once a minute
	_, stderr := a.report(base, command.ExitError, "--all", "--from", day, "--to", day, "--compare", "previous_period",
		"--tables", "queries", "--output", folder)
	wantParts(t, stderr, "client4-example, portfolio: DATE_RANGE_TOO_OLD", "1 property has no figures")
	if rows := a.table(folder, "queries", "client4-example.csv"); len(rows) != 1 || rows[0]["key"] != "oven" || rows[0]["clicks"] != "7" {
		t.Errorf("its queries: %v", rows)
	}
	for _, reference := range []string{"client4-example", "*4.example"} {
		stdout, _ := a.report(base, command.ExitOK, reference, "--from", day, "--to", day)
		if rows := rowsOf(t, stdout); len(rows) != 1 || rows[0]["slug"] != "client4-example" || rows[0]["totals.clicks"] != "7" {
			t.Errorf("a report of %s: %v", reference, rows)
		}
	}
	stdout, _ := a.report(base, command.ExitOK, "*.example")
	if rows := rowsOf(t, stdout); len(rows) != 3 {
		t.Errorf("a pattern that other properties match: %v", rows)
	}
}

// The hour's requests are used up in the middle. An hour later the report goes on, and asks only for what it lacks.
func testReportResumed(a *agency, binary string) {
	t, folder := a.T, a.Path("report")
	if left := time.Hour - time.Duration(time.Now().UnixNano())%time.Hour; left < time.Minute {
		t.Skip("the hour ends")
	}
	today := time.Now().UTC().Day()
	args := []string{"client*", "--tables", "queries,devices", "--output", folder}
	first, base, _ := serving(t, binary, a.Env)
	stdout, stderr := a.report(base, command.ExitError, args...)
	first.stopped()
	// One request lists the properties, four read summaries: five are left for tables.
	wantParts(t, stdout, "6 files of 4 properties")
	wantParts(t, stderr, "RATE_LIMITED: the account's 10 requests an hour are used up", "3 files are missing")
	if !regexp.MustCompile(`repeat the command with --resume at \S+:00:0[01]Z, in `).MatchString(stderr) { // the wait is rounded up to a second
		t.Errorf("the time to go on is missing in:\n%s", stderr)
	}
	notes := a.table(folder, "notes.csv")
	missing := 0
	for _, row := range notes {
		if row["state"] == "missing" {
			missing++
		}
	}
	if missing != 3 || len(notes) != 9 {
		t.Errorf("notes.csv: %d of %d lines are of missing files", missing, len(notes))
	}
	// A process that restarts keeps the counts; an hour later they begin again.
	second, base, _ := serving(t, binary, append(a.Env, "SARA_CLOCK_OFFSET=1h"))
	stdout, _ = a.report(base, command.ExitOK, append(args, "--resume")...)
	wantParts(t, stdout, "9 files of 4 properties")
	want := 10 + 3 + 1
	if time.Now().UTC().Add(time.Hour).Day() != today { // an hour later is another day
		want = 3 + 1
	}
	if used := usageToday(t, base, a.key); used != want {
		t.Errorf("%d requests are charged, want %d", used, want)
	}
	second.stopped()
}

// An interrupted report leaves whole files only, and goes on.
func testReportInterrupted(a *agency, binary string) {
	t, folder := a.T, a.Path("report")
	server, base, _ := serving(t, binary, a.Env)
	interrupted, held := make(chan struct{}), make(chan struct{})
	on := func(n int64) {
		if n == 7 { // four series, and some tables
			close(interrupted)
		}
		if n >= 7 {
			<-held
		}
	}
	a.onSearch.Store(&on)
	args := []string{"report", "client*", "--url", base, "--tables", "queries,pages", "--output", folder}
	running := start(t, binary, append(a.Env, "SARA_API_KEY="+a.key), args...)
	<-interrupted
	if shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", running.command.Process.Pid)); err == nil && strings.Contains(string(shown), a.key) {
		t.Error("ps shows the key")
	}
	running.signal(os.Interrupt)
	_, err := running.wait()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("after an interrupt: %v, want status 130\n%s", err, running.stderr)
	}
	wantParts(t, running.stderr.String(), "interrupted: what is written stays; repeat the command with --resume to go on")
	for _, file := range reportFiles(t, folder) {
		if strings.Contains(file, atomicfile.TemporaryPrefix) {
			t.Errorf("it leaves %s", file)
		}
	}
	close(held)
	stdout, _ := a.report(base, command.ExitOK, append(args[1:2:2], append(args[4:], "--resume")...)...)
	wantParts(t, stdout, "9 files of 4 properties")
	server.stopped()
}
