package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sara/archive/duckdbtest"
	"sara/cmd/sara/saratest"
)

// agenciesGuide is the guide to reports, about a demo. Its commands run in a home folder.
type agenciesGuide struct {
	home, key           string
	setup, sql          string
	everyMorning, mails string // lines of a crontab
}

func readAgenciesGuide(t *testing.T, d demo) *agenciesGuide {
	t.Helper()
	text, err := os.ReadFile("../docs/guides/agencies.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(strings.ReplaceAll(string(text), "https://api.example.com", d.BaseURL), -1)
	if len(blocks) != 4 {
		t.Fatalf("the guide has %d blocks, want 4", len(blocks))
	}
	g := &agenciesGuide{home: t.TempDir(), key: d.Keys["workspace_scoped"], setup: blocks[0], sql: blocks[1], everyMorning: blocks[2], mails: blocks[3]}
	// The clock of the demo stands elsewhere than that of date. mail keeps what it is given.
	for name, script := range map[string]string{
		"sara": `exec '` + d.program + `' "$@"`,
		"date": `exec /bin/date "$1" "$2" "` + saratest.PageTime().Format(time.DateTime) + ` UTC $3" "$4"`,
		"mail": `{ printf '%s\n' "$@"; cat; } >~/sent; test -s "$4" && test -s "$6"`,
	} {
		if err := os.WriteFile(filepath.Join(g.home, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// sh runs a command as cron does, and returns its output.
func (g *agenciesGuide) sh(t *testing.T, text string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "/bin/sh", "-ec", text)
	command.Dir, command.Stdin = g.home, strings.NewReader(g.key+"\n")
	command.Env = []string{"HOME=" + g.home, "PATH=" + g.home + ":/usr/bin:/bin"}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", text, err, out)
	}
	return string(out)
}

// cron runs a line of a crontab.
func (g *agenciesGuide) cron(t *testing.T, line string) {
	t.Helper()
	fields := regexp.MustCompile(`^    (?:\S+ ){5} *(.*)\n$`).FindStringSubmatch(line)
	if fields == nil || strings.Contains(strings.ReplaceAll(fields[1], `\%`, ""), "%") {
		t.Fatalf("no line of a crontab: %s", line)
	}
	if out := g.sh(t, strings.ReplaceAll(fields[1], `\%`, "%")); out != "" {
		t.Errorf("cron mails %q", out)
	}
}

func (g *agenciesGuide) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.home, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testGuideToAgencies runs the commands of the guide, and its query.
func testGuideToAgencies(t *testing.T, d demo) {
	t.Parallel()
	g := readAgenciesGuide(t, d)
	domain := d.Properties["main"]["domain"]
	if out := g.sh(t, g.setup); !strings.Contains(out, domain) {
		t.Errorf("the report is %s", out)
	}
	g.cron(t, g.everyMorning)
	if got := g.read(t, "reports/"+saratest.PageTime().AddDate(0, 0, -3).Format(time.DateOnly)+"/portfolio.csv"); !strings.Contains(got, domain) {
		t.Errorf("the report of the morning is %s", got)
	}
	g.cron(t, g.mails)
	const sent = "-s\nSearch, last week\n-a\nweek/portfolio.csv\n-a\nweek/notes.csv\nteam@agency.example\nThe last seven days of all sites.\n"
	if got := g.read(t, "sent"); got != sent {
		t.Errorf("the mail is %q", got)
	}
	g.sh(t, "sara report --all --tables queries --output report --quiet --key-file ~/.sara-key --url "+d.BaseURL)
	t.Run("DuckDB", func(t *testing.T) {
		rows := duckdbtest.New(t).Rows(strings.ReplaceAll(g.sql, "'report/", "'"+g.home+"/report/"))
		if len(rows) != 20 || !strings.Contains(rows[0], "alder") {
			t.Errorf("DuckDB finds %s", rows)
		}
	})
}
