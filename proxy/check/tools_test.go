package check

import (
	"encoding/csv"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sara/archive/duckdbtest"
	"sara/cmd/sara/saratest"
)

// toolsGuide is the guide to the tools, about a demo instead of the service of the guide. Its samples share a folder.
type toolsGuide struct {
	world   saratest.World
	folder  string
	samples map[string][]string // by language
}

func readToolsGuide(t *testing.T, d demo) *toolsGuide {
	t.Helper()
	text, err := os.ReadFile("../docs/guides/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	g := &toolsGuide{world: d.World, folder: t.TempDir(), samples: make(map[string][]string)}
	ours := strings.NewReplacer("https://api.example.com", d.BaseURL, "properties/example.com/", "properties/"+d.Properties["main"]["slug"]+"/",
		"YOUR_API_KEY", d.Keys["workspace_scoped"])
	for _, found := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		g.samples[found[1]] = append(g.samples[found[1]], ours.Replace(found[2]))
	}
	return g
}

// next takes the next sample in a language.
func (g *toolsGuide) next(t *testing.T, language string) string {
	t.Helper()
	rest := g.samples[language]
	if len(rest) == 0 {
		t.Fatalf("the guide lacks a sample in %s", language)
	}
	g.samples[language] = rest[1:]
	return rest[0]
}

// run runs a program in the folder.
func (g *toolsGuide) run(t *testing.T, want, program string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir, command.Env = g.folder, append(os.Environ(), "API_KEY="+g.world.Keys["workspace_scoped"])
	out, err := command.CombinedOutput()
	if err != nil || !regexp.MustCompile(want).Match(out) {
		t.Errorf("%s %q: %v\n%s\nwant %s", program, args, err, out, want)
	}
}

// get sends a request with the headers of a sample, and returns the body of the answer.
func (g *toolsGuide) get(t *testing.T, address string, header http.Header) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err != nil || closed != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s\n%s (%v, %v)", address, response.Status, body, err, closed)
	}
	return string(body)
}

// wantQueries tests that a text is the CSV of the first 1,000 queries.
func wantQueries(t *testing.T, text string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 1001 || strings.Join(rows[0], " ") != "key clicks impressions ctr position" {
		t.Errorf("want the CSV of 1,000 queries, got %d rows (%v):\n%.300s", len(rows), err, text)
	}
}

// testGuideToTheTools runs the samples of the guide, as far as that is possible without the internet.
func testGuideToTheTools(t *testing.T, d demo) {
	g := readToolsGuide(t, d)
	t.Run("curl", g.testCurl) // first: it writes the file of the next
	t.Run("DuckDB", g.testDuckDB)
	t.Run("pandas", g.testPandas)
	t.Run("Apps Script", g.testAppsScript)
	t.Run("Grafana", g.testGrafana)
	t.Run("Power Query", g.testPowerQuery)
	for language, rest := range g.samples {
		for _, code := range rest {
			t.Errorf("no test runs this sample in %s:\n%s", language, code)
		}
	}
}

func (g *toolsGuide) testCurl(t *testing.T) {
	filter, table := g.next(t, "sh"), g.next(t, "sh")
	g.run(t, `(?i)x-source: live`, "bash", "-euo", "pipefail", "-c", table)
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed")
	}
	g.run(t, `(?m)^.+\t\d+\t\d+\.\d+$`, "bash", "-euo", "pipefail", "-c", filter)
}

var secretForm = regexp.MustCompile(`BEARER_TOKEN '([^']+)', EXTRA_HTTP_HEADERS MAP \{'(\S+)': '(\S+)'\}\);\n[^;]* read_csv\('([^']+)'\)`)

func (g *toolsGuide) testDuckDB(t *testing.T) {
	file, address := g.next(t, "sql"), g.next(t, "sql")
	t.Parallel()
	m := secretForm.FindStringSubmatch(address)
	if m == nil || !strings.Contains(address, "SET force_download = true;") {
		t.Fatalf("%s\nhas not the form %s", address, secretForm)
	}
	// This is what DuckDB 1.5.5 sends for the sample. It does so by itself where its extension can be fetched.
	wantQueries(t, g.get(t, m[4], http.Header{"Authorization": {"Bearer " + m[1]}, m[2]: {m[3]}, "User-Agent": {"duckdb/v1.5.5(linux_amd64)"}}))
	duck := duckdbtest.New(t)
	rows := duck.Rows(strings.ReplaceAll(file, "queries.csv", filepath.Join(g.folder, "queries.csv")))
	if len(rows) != 10 || !strings.Contains(rows[0], "alder") {
		t.Errorf("DuckDB finds %s", rows)
	}
	t.Run("HTTP", func(t *testing.T) {
		duck.FetchHTTP(t)
		if got := duck.Rows(strings.SplitAfter(strings.TrimSpace(address), ";\n")...); strings.Join(got, "\n") != strings.Join(rows, "\n") {
			t.Errorf("DuckDB finds %s, want %s", got, rows)
		}
	})
}

// testPandas compiles the sample, and runs it where pandas is installed.
func (g *toolsGuide) testPandas(t *testing.T) {
	code := g.next(t, "python")
	t.Parallel()
	python := "/usr/bin/python3" // which has the packages of the system
	if _, err := os.Stat(python); err != nil {
		t.Skip("python3 is not installed")
	}
	if err := os.WriteFile(filepath.Join(g.folder, "sample.py"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	g.run(t, "", python, "-m", "py_compile", "sample.py")
	if exec.CommandContext(t.Context(), python, "-c", "import pandas").Run() != nil {
		t.Skip("pandas is not installed: the sample was compiled, but not run")
	}
	g.run(t, `(?s)live \[.*clicks +impressions`, python, "sample.py")
}

// The values of the sample in M that make up its request.
var webContents = regexp.MustCompile(
	`(?s)Web\.Contents\("([^"]+)".*RelativePath = "([^"]+)".*Query = \[(\w+) = "(\w+)"\].*Headers = \[Authorization = "([^"]+)", Accept = "([^"]+)"\]`)

// testPowerQuery parses the sample, and sends the request that Power Query sends for it, as its documentation says.
func (g *toolsGuide) testPowerQuery(t *testing.T) {
	code := g.next(t, "powerquery")
	t.Parallel()
	m := webContents.FindStringSubmatch(code)
	if m == nil {
		t.Fatalf("the sample has not the form %s", webContents)
	}
	table := g.get(t, m[1]+"/"+m[2]+"?"+m[3]+"="+m[4], http.Header{"Authorization": {m[5]}, "Accept": {m[6]}})
	wantQueries(t, table)
	columns := strings.Split(table[:strings.Index(table, "\r\n")], ",")
	for _, typed := range regexp.MustCompile(`\{"(\w+)", `).FindAllStringSubmatch(code, -1) {
		if !slices.Contains(columns, typed[1]) {
			t.Errorf("there is no column %s in %s", typed[1], columns)
		}
	}
	g = g.withNode(t)
	g.write(t, "sample.pq", code)
	g.write(t, "powerquery.js", g.program(t, "powerquery.js"))
	g.run(t, "^LetExpression$", "node", "powerquery.js", "sample.pq")
}
