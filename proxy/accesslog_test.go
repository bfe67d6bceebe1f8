package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"sara/policy"
)

// answered is an exchange whose answer has a body of five bytes.
func answered(client string) *exchange {
	ctx := new(fasthttp.RequestCtx)
	ctx.Response.SetBodyString("12345")
	return &exchange{call: call{id: "req_1", started: time.Date(2026, 11, 21, 12, 0, 0, 250_000_000, time.UTC)},
		route: &route{Operation: "getSummary"}, client: client, http: ctx}
}

// A line is written as slog would write it, so that one parser reads the whole log.
func TestAccessLinesHaveTheFormatOfSlog(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"192.0.2.1", "2001:db8::1", "", "a b", `"quoted"`, `back\slash`, "for=192.0.2.1", "tab\there",
		"ünïcode", "\x7f\x01", "\xff"} {
		for _, code := range []string{"", "RATE_LIMITED"} {
			full := answered(client)
			full.grant = &policy.Grant{Key: &policy.Key{ID: "key-1", AccountID: "account-1"}}
			full.property = &policy.Property{ID: "property-1"}
			for _, x := range []*exchange{answered(client), full} {
				attributes := []any{"request_id", "req_1", "operation", "getSummary", "status", 200, "seconds", 0.00125, "bytes", 5, "client", client}
				if code != "" {
					attributes = append(attributes, "code", code)
				}
				if x.grant != nil {
					attributes = append(attributes, "key", "key-1", "account", "account-1", "property", "property-1")
				}
				var asText, asJSON bytes.Buffer
				slog.New(slog.NewTextHandler(&asText, nil)).Info("request", attributes...)
				slog.New(slog.NewJSONHandler(&asJSON, nil)).Info("request", attributes...)
				took := 1250 * time.Microsecond
				odd := client == `back\slash` || client == "ünïcode" // slog does not quote these
				if got, want := afterTime(lineOf(AccessText, x, code, took)), afterTime(asText.Bytes()); got != want && !odd {
					t.Errorf("text:\n got %swant %s", got, want)
				}
				var got, want map[string]any
				line := lineOf(AccessJSON, x, code, took)
				if err := json.Unmarshal(line, &got); err != nil || json.Unmarshal(asJSON.Bytes(), &want) != nil || line[len(line)-1] != '\n' {
					t.Fatalf("%q: %v", line, err)
				}
				if got["time"] != "2026-11-21T12:00:00.251Z" {
					t.Errorf("time is %v", got["time"])
				}
				got["time"], want["time"] = nil, nil
				if a, b := string(mustJSON(t, got)), string(mustJSON(t, want)); a != b {
					t.Errorf("JSON:\n got %s\nwant %s", a, b)
				}
			}
		}
	}
}

// The text of a second is kept, but each line has the time of its own answer.
func TestAccessLinesHaveTheTimeOfTheirAnswer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 12, 31, 23, 59, 58, 0, time.UTC)
	east := time.FixedZone("", 5*60*60+30*60)
	last := new(second)
	for _, at := range []time.Time{
		{}, start, start.Add(7 * time.Millisecond), start.Add(999*time.Millisecond + 999_999), start.Add(time.Second), start.Add(2 * time.Second),
		start, start.In(east), start.Add(120 * time.Millisecond).In(east), start.Add(45 * time.Millisecond),
	} {
		if got, want := string(last.appendInstant([]byte("time="), at)), "time="+at.Format("2006-01-02T15:04:05.000Z07:00"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAccessLinesHaveExactSeconds(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]string{
		0: "0", 1: "0.000000001", 50 * time.Microsecond: "0.00005", 1250 * time.Microsecond: "0.00125", 123_456_789: "0.123456789",
		time.Second: "1", 10*time.Second + 100: "10.0000001", 25 * time.Second: "25", 100*time.Second - 1: "99.999999999",
	} {
		if got := string(appendSeconds([]byte("seconds="), took)); got != "seconds="+want {
			t.Errorf("%d ns: got %s, want %s", took, got, want)
		}
	}
}

// lineOf returns the line of a success.
func lineOf(f AccessFormat, x *exchange, code string, took time.Duration) []byte {
	l := &accessLog{config: AccessLogConfig{Format: f}}
	return l.append(nil, x, 200, code, took, 1)
}

func afterTime(line []byte) string {
	_, rest, _ := strings.Cut(string(line), " ")
	return rest
}

// lines keeps what each write has.
type lines []string

func (l *lines) Write(p []byte) (int, error) {
	*l = append(*l, string(p))
	return len(p), nil
}

// Requests at the same time write their lines one after the other, each at once.
func TestAccessLinesAreWhole(t *testing.T) {
	t.Parallel()
	var out lines
	l := &accessLog{config: AccessLogConfig{Out: &out, Format: AccessJSON, Sample: 1}}
	const requests, each = 8, 100
	var group sync.WaitGroup
	for range requests {
		group.Go(func() {
			for range each {
				l.write(answered("192.0.2.1"), 200, "", time.Millisecond)
			}
		})
	}
	group.Wait()
	want := string(lineOf(AccessJSON, answered("192.0.2.1"), "", time.Millisecond))
	if len(out) != requests*each || slices.ContainsFunc(out, func(line string) bool { return line != want }) {
		t.Errorf("there are %d writes, of %q, want %d of %q", len(out), slices.Compact(out), requests*each, want)
	}
}

func counted(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestAccessLogCanBeOff(t *testing.T) {
	t.Parallel()
	l := &accessLog{config: AccessLogConfig{Sample: 1}}
	l.write(answered("192.0.2.1"), 200, "", 0)
	if len(l.line) > 0 {
		t.Errorf("%q is for an output that there is not", l.line)
	}
}

func BenchmarkAccessLine(b *testing.B) {
	l := &accessLog{config: AccessLogConfig{Out: io.Discard, Format: AccessJSON, Sample: 1}}
	x := answered("192.0.2.1")
	x.grant = &policy.Grant{Key: &policy.Key{ID: "key_0123456789abcdef", AccountID: "acct_0123456789abcdef"}}
	x.property, x.id = &policy.Property{ID: "prop_0123456789abcdef"}, newRequestID().String()
	run := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.write(x, 200, "", 1250*time.Microsecond)
		}
	}
	b.Run("any", run)
	x.memoized = &admittedRequest{logged: AccessJSON.appendTenant(nil, x.grant, x.property)}
	b.Run("memoized", run)
}

// The line of a memoized request says the same as that of the request before it.
func TestAccessLineOfAMemoizedRequest(t *testing.T) {
	for name, format := range map[string]AccessFormat{"text": AccessText, "JSON": AccessJSON} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *Config) { c.AccessLog.Format = format })
			varying := regexp.MustCompile(`"?(time|request_id|seconds)"?[:=][^ ,]*`)
			line := func() string {
				return varying.ReplaceAllString(w.lineOf(w.get("pro", w.path("main", "/summary"))), "$1")
			}
			_, found, memoized := line(), line(), line()
			if memoized != found {
				t.Errorf("the line is\n%s\nwant\n%s", memoized, found)
			}
			for _, member := range []string{"key", "account", "property", "operation", "client"} {
				if !strings.Contains(memoized, member) {
					t.Errorf("%s does not say the %s", memoized, member)
				}
			}
			if w.server.memo.kept.Len() != 1 {
				t.Errorf("%d requests are memoized, want 1", w.server.memo.kept.Len())
			}
		})
	}
}

// The request id decides whether a success is logged, so every replica decides alike. Errors are always logged.
func TestAccessLogSamplesSuccessesAndKeepsErrors(t *testing.T) {
	const share, each = 0.5, 60
	w := newWorld(t, func(c *Config) { c.AccessLog.Sample = share })
	written := map[bool]int{}
	for range each {
		good, bad := w.get("pro", "/v1/me"), w.get("", "/v1/me")
		first, err := strconv.ParseUint(good.header.Get("X-Request-Id")[len("req_"):][:8], 16, 32)
		w.must(err)
		want := float64(first)/(1<<32) < share
		written[want]++
		if line := w.lineOf(good); (line != "") != want || want && !strings.Contains(line, `"sample":0.5}`) {
			t.Errorf("%s: the line is %q, want one %v", good.header.Get("X-Request-Id"), line, want)
		}
		if line := w.lineOf(bad); !strings.Contains(line, `"status":401`) || strings.Contains(line, "sample") {
			t.Errorf("the line of an error is %q", line)
		}
	}
	if written[true] < each/10 || written[false] < each/10 {
		t.Errorf("of %d successes %d have a line", each, written[true])
	}
	if _, kept := new(accessLog).sampled(newRequestID().String(), http.StatusNotModified); kept {
		t.Error("a sampling fraction of 0 logs some successes")
	}
}

// lineOf returns the access log line of a request.
func (w *world) lineOf(r response) string {
	for line := range strings.Lines(w.logged()) {
		if strings.Contains(line, r.header.Get("X-Request-Id")) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
