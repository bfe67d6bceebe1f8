package check

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// A query is the query of a panel or an alert.
type query struct {
	from, text string
}

// A dashboard has the checked fields of Grafana's JSON.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ Type, UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID      string `json:"refId"`
		Expr       string
		Datasource struct{ Type, UID string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(readFile(t, "../grafana/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries returns those of all panels, with values for Grafana's variables.
func (d dashboard) queries() []query {
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job", "sara", "$instance", ".*")
	var queries []query
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, query{"panel " + p.Title, fill.Replace(target.Expr)})
		}
	}
	return queries
}

// An alertRule is a rule of Prometheus.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func readAlerts(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "../grafana/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var rules []alertRule
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

func alertQueries(t *testing.T) []query {
	t.Helper()
	var queries []query
	for _, rule := range readAlerts(t) {
		queries = append(queries, query{"alert " + rule.Alert, rule.Expr})
	}
	return queries
}

// check returns an error for series, labels and label values that do not exist.
func (q query) check(known exposition) error {
	parsed, err := parser.ParseExpr(q.text)
	if err != nil {
		return fmt.Errorf("%s: %w in %s", q.from, err, q.text)
	}
	var wrong []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			for _, matcher := range node.LabelMatchers {
				if problem := known.match(node.Name, matcher); problem != "" {
					wrong = append(wrong, problem)
				}
			}
		case *parser.AggregateExpr:
			for _, name := range selected(node.Expr) {
				for _, label := range node.Grouping {
					if !known.hasLabel(name, label) {
						wrong = append(wrong, name+" has no label "+label)
					}
				}
			}
		}
		return nil
	})
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %s", q.from, strings.Join(wrong, "; "))
	}
	return nil
}

// selected returns the names of the series in an expression, except those inside aggregations, which change the labels.
func selected(expr parser.Expr) []string {
	var names []string
	var walk func(node parser.Node)
	walk = func(node parser.Node) {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			return
		case *parser.VectorSelector:
			names = append(names, node.Name)
		}
		for _, child := range parser.Children(node) {
			walk(child)
		}
	}
	walk(expr)
	return names
}

func TestDashboardFitsGrafana(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("dashboard %q %q of schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has a duplicate id, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if g := p.GridPos; g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q is at %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		checkPanel(t, p)
	}
}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	switch p.Type {
	case "row":
		return
	case "stat", "timeseries":
	default:
		t.Errorf("panel %q is a %q", p.Title, p.Type)
	}
	if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
		t.Errorf("panel %q lacks a description, a unit, queries or the data source", p.Title)
	}
	references := make(map[string]bool)
	for _, target := range p.Targets {
		if references[target.RefID] || target.RefID == "" || target.Expr == "" || target.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q: query %q is duplicate, empty, or from another data source", p.Title, target.RefID)
		}
		references[target.RefID] = true
		if !strings.Contains(target.Expr, `job=~"$job",instance=~"$instance"`) {
			t.Errorf("panel %q: query %s ignores the selected replicas", p.Title, target.RefID)
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	rules := readAlerts(t)
	names := make(map[string]bool)
	for _, rule := range rules {
		severity, description := rule.Labels["severity"], rule.Annotations["description"]
		if names[rule.Alert] || severity != "critical" && severity != "warning" {
			t.Errorf("%s is duplicate, or has the severity %q", rule.Alert, severity)
		}
		names[rule.Alert] = true
		if rule.Annotations["summary"] == "" || !strings.Contains(description, "Runbook: ") {
			t.Errorf("%s does not say what to do", rule.Alert)
		}
		// An increase over a long time needs no further delay.
		if rule.For == "" && !strings.Contains(rule.Expr, "increase(") {
			t.Errorf("%s fires without a delay", rule.Alert)
		}
	}
	if len(rules) < 10 {
		t.Errorf("%d rules", len(rules))
	}
}
