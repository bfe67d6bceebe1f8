package check

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"sara/cmd/sara/saratest"
)

// grafanaSources is what Grafana reads from a file in provisioning/datasources, as far as the guide's has it.
type grafanaSources struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, UID, Type, Access, URL string
		JSONData                     struct {
			AuthMethod     string   `yaml:"auth_method"`
			AllowedHosts   []string `yaml:"allowedHosts"`
			HealthCheck    bool     `yaml:"customHealthCheckEnabled"`
			HealthCheckURL string   `yaml:"customHealthCheckUrl"`
		} `yaml:"jsonData"`
		SecureJSONData struct {
			BearerToken string `yaml:"bearerToken"`
		} `yaml:"secureJsonData"`
	}
}

// grafanaTarget is a query of the plugin Infinity.
type grafanaTarget struct {
	Type, Parser, Source, URL string
	RootSelector              string `json:"root_selector"`
	Columns                   []struct{ Selector, Type, TimestampFormat string }
}

// testGrafana sends the requests that the plugin Infinity sends for the files of the guide, and reads the columns as it does.
func (g *toolsGuide) testGrafana(t *testing.T) {
	source, dashboard := g.next(t, "yaml"), g.next(t, "json")
	var sources grafanaSources
	decoder := yaml.NewDecoder(strings.NewReader(source))
	decoder.KnownFields(true)
	if err := decoder.Decode(&sources); err != nil {
		t.Fatal(err)
	}
	d := sources.Datasources[0]
	if d.JSONData.AuthMethod != "bearerToken" || d.SecureJSONData.BearerToken != "$API_KEY" || d.JSONData.AllowedHosts[0] != d.URL ||
		!d.JSONData.HealthCheck {
		t.Fatalf("the data source is %+v", d)
	}
	bearer := "Bearer " + os.Expand(d.SecureJSONData.BearerToken, func(string) string { return g.world.Keys["workspace_scoped"] })
	g.get(t, d.JSONData.HealthCheckURL, http.Header{"Authorization": {bearer}})

	var board struct {
		Panels []struct {
			Title      string
			Datasource struct{ Type, UID string }
			Targets    []grafanaTarget
		}
	}
	if err := json.Unmarshal([]byte(dashboard), &board); err != nil || len(board.Panels) != 2 {
		t.Fatalf("the dashboard has %d panels (%v)", len(board.Panels), err)
	}
	days := strings.NewReplacer("${__from:date:YYYY-MM-DD}", saratest.PageTime().AddDate(0, 0, -90).Format(time.DateOnly),
		"${__to:date:YYYY-MM-DD}", saratest.PageTime().Format(time.DateOnly))
	for _, panel := range board.Panels {
		target := panel.Targets[0]
		if panel.Datasource.UID != d.UID || panel.Datasource.Type != d.Type || target.Type != "json" ||
			target.Parser != "backend" || target.Source != "url" {
			t.Errorf("panel %s: %+v", panel.Title, panel)
		}
		body := g.get(t, d.URL+days.Replace(target.URL), http.Header{"Authorization": {bearer}, "Accept": {"application/json;q=0.9,text/plain"}})
		rows := gjson.Get(body, target.RootSelector).Array()
		if len(rows) < 80 {
			t.Errorf("panel %s: %d rows", panel.Title, len(rows))
		}
		for _, row := range rows {
			target.wantColumns(t, row)
		}
	}
}

// wantColumns tests that a row has each column, of its type.
func (target *grafanaTarget) wantColumns(t *testing.T, row gjson.Result) {
	t.Helper()
	for _, c := range target.Columns {
		value, good := row.Get(c.Selector), false
		switch c.Type {
		case "number":
			good = value.Type == gjson.Number
		case "string":
			good = value.Type == gjson.String
		case "timestamp":
			_, err := time.Parse(c.TimestampFormat, value.Str)
			good = err == nil
		}
		if !good {
			t.Fatalf("%s is no %s in %s", c.Selector, c.Type, row)
		}
	}
}
