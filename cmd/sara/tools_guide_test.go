package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sara/archive/duckdbtest"
)

// A sample is a block of code of a guide.
type sample struct{ language, code string }

// samplesOf returns the samples of a guide, about a demo instead of the service of the guide.
func samplesOf(t *testing.T, name string, world demoLine) (samples []sample) {
	t.Helper()
	text, err := os.ReadFile("../../proxy/docs/guides/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.NewReplacer("https://api.example.com", world.BaseURL, "properties/example.com/", "properties/"+world.Properties["main"]["slug"]+"/")
	for _, found := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		samples = append(samples, sample{language: found[1], code: ours.Replace(found[2])})
	}
	return samples
}

// What Google's services do for the script, as far as it uses them: the answer is in the file queries.csv.
const appsScript = `
const fs = require("fs");
const PropertiesService = { getScriptProperties: () => ({ getProperty: (name) => process.env[name] }) };
const UrlFetchApp = { fetch: (url, options) => {
  const want = JSON.stringify({ Authorization: "Bearer " + process.env.API_KEY, Accept: "text/csv" });
  if (!url.endsWith("/queries?limit=1000") || JSON.stringify(options.headers) !== want) throw new Error(url + JSON.stringify(options));
  return { getContentText: () => fs.readFileSync("queries.csv", "utf8") };
} };
const Utilities = { parseCsv: (text) => text.trim().split("\r\n").map((line) => line.split(",")) };
const sheet = { clearContents() {}, getRange: (...place) => ({ setValues: (rows) => console.log(place.join(" "), rows[0].join(" ")) }) };
const SpreadsheetApp = { getActive: () => ({ getSheetByName: () => null, insertSheet: () => sheet }) };
`

// testGuideToTheTools runs the samples of the guide, one after the other in one folder, as far as that is possible without the internet.
func testGuideToTheTools(t *testing.T, world demoLine) {
	folder := t.TempDir()
	run := func(t *testing.T, want, program string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir, command.Env = folder, append(os.Environ(), "API_KEY="+world.Keys["workspace_scoped"])
		out, err := command.CombinedOutput()
		if err != nil || !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s %q: %v\n%s\nwant %s", program, args, err, out, want)
		}
	}
	wanted := map[string][]string{"sh": {`(?m)^.+\t\d+\t\d+\.\d+$`, `(?i)x-source: live`}, "sql": {`"alder`}, "python": {`(?s)live \[.*clicks +impressions`},
		"javascript": {`^1 1 \d+ 5 key clicks impressions ctr position`}, "text": {"", ""}}
	for _, s := range samplesOf(t, "tools", world) {
		if len(wanted[s.language]) == 0 {
			t.Fatalf("the guide has a sample too many:\n%s", s.code)
		}
		want := wanted[s.language][0]
		wanted[s.language] = wanted[s.language][1:]
		t.Run(s.language, func(t *testing.T) {
			switch s.language {
			case "sh":
				if _, err := exec.LookPath("jq"); err != nil && strings.Contains(s.code, "jq ") {
					t.Skip("jq is not installed")
				}
				run(t, want, "bash", "-euo", "pipefail", "-c", s.code)
			case "sql":
				duck := duckdbtest.New(t)
				if rows := duck(strings.ReplaceAll(s.code, "queries.csv", filepath.Join(folder, "queries.csv"))); len(rows) != 10 || !strings.Contains(rows[0], "alder") {
					t.Errorf("DuckDB finds %s", rows)
				}
			case "python":
				runPython(t, run, folder, s.code, want)
			case "javascript":
				if _, err := exec.LookPath("node"); err != nil {
					t.Skip("node is not installed")
				}
				run(t, want, "node", "-e", appsScript+s.code+"refreshQueries();")
			}
		})
	}
	for language, rest := range wanted {
		if len(rest) > 0 {
			t.Errorf("the guide lacks %d samples in %s", len(rest), language)
		}
	}
}

// runPython compiles a program, and runs it where pandas is installed.
func runPython(t *testing.T, run func(*testing.T, string, string, ...string), folder, code, want string) {
	t.Helper()
	python := "/usr/bin/python3" // which has the packages of the system
	if _, err := os.Stat(python); err != nil {
		t.Skip("python3 is not installed")
	}
	if err := os.WriteFile(filepath.Join(folder, "sample.py"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "", python, "-m", "py_compile", "sample.py")
	if exec.CommandContext(t.Context(), python, "-c", "import pandas").Run() != nil {
		t.Skip("pandas is not installed: the sample was compiled, but not run")
	}
	run(t, want, python, "sample.py")
}
