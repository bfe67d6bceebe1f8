package check

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sara/archive/nodetest"
	"sara/cmd/sara/saratest"
)

// nodePrograms is the folder of the programs that run the guide's samples.
const nodePrograms = "testdata/tools"

// withNode returns the guide with a folder of its own, which has the packages of the programs. It skips the test where they cannot be
// installed.
func (g *toolsGuide) withNode(t *testing.T) *toolsGuide {
	t.Helper()
	own := *g
	own.folder = t.TempDir()
	own.write(t, "package.json", g.program(t, "package.json"))
	nodetest.Install(t, own.folder)
	return &own
}

// write writes a file of the guide's folder.
func (g *toolsGuide) write(t *testing.T, name string, parts ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.folder, name), []byte(strings.Join(parts, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// testAppsScript runs the samples of Google's Apps Script with stand-ins for Google's services, and checks them against their types.
func (g *toolsGuide) testAppsScript(t *testing.T) {
	sheets, looker, manifest := g.next(t, "javascript"), g.next(t, "javascript"), g.next(t, "json")
	g.wantManifest(t, manifest)
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	t.Run("types", func(t *testing.T) {
		t.Parallel()
		g := g.withNode(t)
		g.write(t, "sheets-sample.js", sheets)
		g.write(t, "looker-sample.js", looker)
		g.run(t, "^$", "node", "node_modules/typescript/bin/tsc", "--noEmit", "--allowJs", "--checkJs", "--target", "es2020", "--lib", "es2020",
			"--types", "google-apps-script", "--skipLibCheck", "sheets-sample.js", "looker-sample.js")
	})
	services := g.program(t, "googleservices.js")
	t.Run("Sheets", func(t *testing.T) {
		g.write(t, "sheets-run.js", services, sheets, "refreshQueries();")
		g.run(t, `^1 1 1001 5 key clicks impressions ctr position`, "node", "sheets-run.js")
	})
	t.Run("Looker Studio", func(t *testing.T) {
		settings, err := json.Marshal(map[string]string{"API_KEY": g.world.Keys["agency"],
			"REVOKED_KEY": g.world.Keys["revoked"], "PROPERTY": g.world.Properties["main"]["gsc_property"],
			"START_DATE": saratest.PageTime().AddDate(0, 0, -90).Format(time.DateOnly),
			"END_DATE":   saratest.PageTime().AddDate(0, 0, -5).Format(time.DateOnly)})
		if err != nil {
			t.Fatal(err)
		}
		g.write(t, "looker-run.js", "Object.assign(process.env, "+string(settings)+");", services, looker, g.program(t, "looker.js"))
		g.run(t, `^the connector works: 86 days`, "node", "looker-run.js")
	})
}

// program reads a program of the folder nodePrograms.
func (g *toolsGuide) program(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(nodePrograms, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantManifest tests that the manifest of the connector allows it to call the service, and has what Looker Studio requires.
func (g *toolsGuide) wantManifest(t *testing.T, text string) {
	t.Helper()
	var manifest struct {
		TimeZone, RuntimeVersion string
		URLFetchWhitelist        []string
		DataStudio               map[string]string
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.URLFetchWhitelist) != 1 || manifest.URLFetchWhitelist[0] != g.world.BaseURL+"/" || manifest.RuntimeVersion != "V8" {
		t.Errorf("the manifest is %+v", manifest)
	}
	for _, name := range []string{"name", "company", "companyUrl", "logoUrl", "addonUrl", "supportUrl", "description"} {
		if manifest.DataStudio[name] == "" {
			t.Errorf("the manifest has no %s", name)
		}
	}
	if length := utf8.RuneCountInString(manifest.DataStudio["name"]); length > 28 {
		t.Errorf("the name has %d characters, Looker Studio allows 28", length)
	}
}
