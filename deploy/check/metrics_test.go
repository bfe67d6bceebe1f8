package check

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"sara/policy/redistest"
)

// An exposition has the label values of every series in /metrics.
type exposition map[string]map[string]map[string]bool

// newExposition has the series that Prometheus itself adds.
func newExposition() exposition {
	return exposition{"up": {"job": {"sara": true}, "instance": {"": true}}}
}

// add adds the metrics of one process.
func (e exposition) add(t *testing.T, text []byte) {
	t.Helper()
	reader := expfmt.NewTextParser(model.UTF8Validation)
	families, err := reader.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			of := map[string]string{"job": "sara", "instance": ""}
			for _, pair := range metric.GetLabel() {
				of[pair.GetName()] = pair.GetValue()
			}
			switch h, s := metric.GetHistogram(), metric.GetSummary(); {
			case h != nil:
				e.note(name+"_sum", of)
				e.note(name+"_count", of)
				for _, bucket := range h.GetBucket() {
					of["le"] = model.SampleValue(bucket.GetUpperBound()).String()
					e.note(name+"_bucket", of)
				}
			case s != nil:
				e.note(name+"_sum", of)
				e.note(name+"_count", of)
				for _, quantile := range s.GetQuantile() {
					of["quantile"] = model.SampleValue(quantile.GetQuantile()).String()
					e.note(name, of)
				}
			default:
				e.note(name, of)
			}
		}
	}
}

func (e exposition) note(name string, of map[string]string) {
	if e[name] == nil {
		e[name] = make(map[string]map[string]bool)
	}
	for label, value := range of {
		if e[name][label] == nil {
			e[name][label] = make(map[string]bool)
		}
		e[name][label][value] = true
	}
}

func (e exposition) hasLabel(name, label string) bool { return e[name][label] != nil }

// match returns why a matcher of a series finds nothing, or an empty string.
func (e exposition) match(name string, matcher *labels.Matcher) string {
	if e[name] == nil {
		return "there is no " + name
	}
	switch matcher.Name {
	case labels.MetricName, "job", "instance":
		return ""
	}
	if !e.hasLabel(name, matcher.Name) {
		return name + " has no label " + matcher.Name
	}
	for value := range e[name][matcher.Name] {
		if matcher.Matches(value) {
			return ""
		}
	}
	return fmt.Sprintf("%s never has %s", name, matcher)
}

// testMetrics checks the queries of the dashboard and the alerts against the metrics of a demo, after every kind of event that
// has its own series, and against those of a server whose Redis is down.
func testMetrics(t *testing.T, binary string) {
	known := newExposition()
	world := startDemo(t, binary)
	provoke(t, world)
	lines := start(t, binary, 2, []string{"SARA_LISTEN=127.0.0.1:0", "SARA_ADMIN_LISTEN=127.0.0.1:0", "SARA_DATABASE_URL=sqlite:sara.db",
		"SARA_ARCHIVE_URL=archive", "SARA_REDIS_URL=redis://127.0.0.1:1", "SARA_UPSTREAM_URL=" + world.UpstreamURL,
		"SARA_OAUTH_TOKEN_URL=" + world.UpstreamURL + "/token", "SARA_SECRET_KEY=c2FyYSBpcyBub3Qgc2VjcmV0IGluIHRoaXMgdGVzdC4="}, "serve")
	admins := []string{world.AdminURL, strings.TrimPrefix(lines[1], "admin listening on "), startWithRedis(t, binary, world)}
	for _, admin := range admins {
		if out, err := sara(t, binary, nil, "health", "--url", admin); err != nil { // as the image's health check does
			t.Errorf("%v: %s", err, out)
		}
		status, text := get(t, admin+"/metrics", "")
		if status != http.StatusOK {
			t.Fatalf("%s/metrics: %d", admin, status)
		}
		known.add(t, text)
	}
	queries := append(readDashboard(t).queries(), alertQueries(t)...)
	for _, q := range queries {
		if err := q.check(known); err != nil {
			t.Error(err)
		}
	}
	if len(queries) < 50 {
		t.Errorf("only %d queries", len(queries))
	}
	testWrongQueries(t, known)
}

// startWithRedis starts a server with a Redis, and returns its admin URL once it exports that Redis's metrics.
func startWithRedis(t *testing.T, binary string, world demo) (admin string) {
	t.Helper()
	lines := start(t, binary, 2, []string{"SARA_LISTEN=127.0.0.1:0", "SARA_ADMIN_LISTEN=127.0.0.1:0", "SARA_DATABASE_URL=sqlite:sara.db",
		"SARA_ARCHIVE_URL=archive", "SARA_REDIS_URL=" + redistest.Single(t).URL(), "SARA_UPSTREAM_URL=" + world.UpstreamURL,
		"SARA_OAUTH_TOKEN_URL=" + world.UpstreamURL + "/token", "SARA_SECRET_KEY=c2FyYSBpcyBub3Qgc2VjcmV0IGluIHRoaXMgdGVzdC4="}, "serve")
	admin = strings.TrimPrefix(lines[1], "admin listening on ")
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, text := get(t, admin+"/metrics", ""); bytes.Contains(text, []byte("sara_redis_eviction_policy_ok{")) {
			return admin
		}
	}
	t.Fatal("there are no metrics of Redis")
	return ""
}

// testWrongQueries checks that invalid queries are found.
func testWrongQueries(t *testing.T, known exposition) {
	for text, want := range map[string]string{
		`sum(rate(sara_requests[5m]))`:                                  "there is no sara_requests",
		`rate(sara_requests_total{path="/"}[5m])`:                       "no label path",
		`rate(sara_cache_lookups_total{result="redis"}[5m])`:            "never has",
		`sum by (method) (rate(sara_requests_total[5m]))`:               "no label method",
		`sum by (status) (rate(sara_request_duration_seconds_sum[5m]))`: "no label status",
		`sum(rate(sara_requests_total[5m])`:                             "unclosed",
		`histogram_quantile(0.9, rate(sara_requests_total_bucket[5m]))`: "there is no",
		`max(sara_budget_degraded) > bool 0 and absent(sara_nothing{})`: "there is no sara_nothing",
		`rate(sara_request_duration_seconds[5m])`:                       "there is no sara_request_duration_seconds", // a histogram has only its parts
		`sum by (le) (rate(sara_request_duration_seconds_sum[5m]) > 0)`: "no label le",
	} {
		if err := (query{"test", text}).check(known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error of %s", text, err, want)
		}
	}
}

// provoke sends requests for all kinds of answers that have their own series.
func provoke(t *testing.T, world demo) {
	t.Helper()
	base := world.BaseURL + "/v1"
	ask := func(key, path string, want int) {
		t.Helper()
		if status, body := get(t, base+path, world.Keys[key]); status != want {
			t.Errorf("GET %s: %d, want %d: %.300s", path, status, want, body)
		}
	}
	ask("", "/me", http.StatusUnauthorized)
	ask("revoked", "/me", http.StatusUnauthorized)
	ask("expired", "/me", http.StatusUnauthorized)
	ask("trial", "/me", http.StatusForbidden)
	ask("pro", "/properties/"+world.Properties["main"].Slug+"/summary", http.StatusOK)
	ask("pro", "/properties/"+world.Properties["disconnected"].Slug+"/queries?filters="+
		url.QueryEscape(`[{"dimension":"page","operator":"contains","value":"a"}]`), http.StatusServiceUnavailable)
	const most = 2000 // above the limit of every plan per minute
	for range most {
		if status, _ := get(t, base+"/me", world.Keys["pro_second"]); status == http.StatusTooManyRequests {
			return
		}
	}
	t.Errorf("%d requests without a 429", most)
}

// promtool runs Prometheus' checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: it comes with Debian's package prometheus")
	}
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusAcceptsTheRules(t *testing.T) {
	promtool(t, "check", "rules", "../grafana/alerts.yaml")
}

func TestPrometheusAcceptsItsConfiguration(t *testing.T) {
	promtool(t, "check", "config", "--syntax-only", "../compose/prometheus.yaml")
}

// TestAlertsFire evaluates the rules on the series in the files.
func TestAlertsFire(t *testing.T) {
	promtool(t, "test", "rules", "testdata/alerts.yaml", "testdata/alerts_days.yaml")
}
