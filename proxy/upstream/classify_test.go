package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	if name == "" {
		return nil
	}
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func clock() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

type classified struct {
	name, file string
	status     int
	header     string
	kind       Kind
	reason     string
	retryAfter time.Duration
	daily      bool
	transient  bool
	message    string // a part of it
}

func (c classified) check(t *testing.T, e *Error) {
	t.Helper()
	if e.Kind != c.kind || e.Status != c.status || e.Reason != c.reason || e.RetryAfter != c.retryAfter || e.transient != c.transient {
		t.Errorf("got %v status %d reason %q retry after %v transient %v\nwant %v status %d reason %q retry after %v transient %v",
			e.Kind, e.Status, e.Reason, e.RetryAfter, e.transient, c.kind, c.status, c.reason, c.retryAfter, c.transient)
	}
	if e.Daily != c.daily {
		t.Errorf("a quota of a day: %v, want %v", e.Daily, c.daily)
	}
	if e.Message == "" || !strings.Contains(e.Message, c.message) {
		t.Errorf("message %q does not contain %q", e.Message, c.message)
	}
}

func TestClassifyByReasonAndMessage(t *testing.T) {
	for _, c := range []classified{
		{name: "load quota rests fifteen minutes", file: "quota_load.json", status: 403, kind: Quota, reason: "quotaExceeded",
			retryAfter: 15 * time.Minute, message: "load quota exceeded"},
		{name: "load quota as 429", file: "quota_load.json", status: 429, kind: Quota, reason: "quotaExceeded", retryAfter: 15 * time.Minute},
		{name: "QPS quota as 403 rests a minute", file: "quota_qps.json", status: 403, kind: Quota, reason: "quotaExceeded", retryAfter: time.Minute},
		{name: "rate limit", file: "quota_rate.json", status: 429, kind: Quota, reason: "rateLimitExceeded", retryAfter: time.Minute},
		{name: "Retry-After in seconds wins", file: "quota_rate.json", status: 429, header: "7", kind: Quota, reason: "rateLimitExceeded",
			retryAfter: 7 * time.Second},
		{name: "Retry-After as a date wins", file: "quota_load.json", status: 403, header: "Sat, 21 Nov 2026 12:02:00 GMT", kind: Quota,
			reason: "quotaExceeded", retryAfter: 2 * time.Minute},
		{name: "a Retry-After in the past is none", file: "quota_qps.json", status: 403, header: "Sat, 21 Nov 2026 11:00:00 GMT", kind: Quota,
			reason: "quotaExceeded", retryAfter: time.Minute},
		{name: "Retry-After is bounded by a day", file: "quota_qps.json", status: 403, header: "4000000000", kind: Quota,
			reason: "quotaExceeded", retryAfter: 24 * time.Hour},
		{name: "a malformed Retry-After is none", file: "quota_qps.json", status: 403, header: "soon", kind: Quota, reason: "quotaExceeded",
			retryAfter: time.Minute},
		{name: "per-minute metric", file: "quota_metric.json", status: 429, kind: Quota, reason: "RATE_LIMIT_EXCEEDED", retryAfter: time.Minute},
		{name: "per-day metric", file: "quota_day.json", status: 429, kind: Quota, reason: "RESOURCE_EXHAUSTED", retryAfter: 15 * time.Minute, daily: true},
		{name: "bare 429", status: 429, kind: Quota, retryAfter: time.Minute},
		{name: "no access to the property", file: "forbidden_site.json", status: 403, kind: Forbidden, reason: "forbidden",
			message: "sc-domain:example.com"},
		{name: "permission denied, new envelope", file: "forbidden_denied.json", status: 403, kind: Forbidden, reason: "PERMISSION_DENIED"},
		{name: "scope missing, old envelope", file: "scope_old.json", status: 403, kind: Misconfigured, reason: "insufficientPermissions",
			message: "webmasters.readonly"},
		{name: "scope missing, new envelope", file: "scope_new.json", status: 403, kind: Misconfigured,
			reason: "ACCESS_TOKEN_SCOPE_INSUFFICIENT", message: "connect again"},
		{name: "API disabled, filed under usage limits", file: "api_disabled_old.json", status: 403, kind: Misconfigured,
			reason: "accessNotConfigured", message: "enable searchconsole.googleapis.com"},
		{name: "API disabled, new envelope", file: "api_disabled_new.json", status: 403, kind: Misconfigured, reason: "SERVICE_DISABLED",
			message: "enable searchconsole.googleapis.com"},
		{name: "access token refused", file: "unauthenticated.json", status: 401, kind: Revoked, reason: "UNAUTHENTICATED"},
		{name: "rejected request", file: "invalid_argument.json", status: 400, kind: Rejected, reason: "badRequest", message: "Duplicate dimensions"},
		{name: "not found", status: 404, kind: Rejected},
		{name: "backend error", file: "backend_error.json", status: 503, kind: Unavailable, reason: "backendError", transient: true},
		{name: "backend error that names a pause", file: "backend_error.json", status: 503, header: "3", kind: Unavailable,
			reason: "backendError", retryAfter: 3 * time.Second, transient: true},
		{name: "internal", file: "internal.json", status: 500, kind: Unavailable, reason: "INTERNAL", transient: true},
		{name: "bare 502", status: 502, kind: Unavailable, transient: true, message: "answered 502"},
		{name: "request timeout", status: 408, kind: Unavailable, transient: true},
		{name: "an HTML 403 is not a verdict on the property", file: "front_end.html", status: 403, kind: Unavailable},
		{name: "an unexpected redirect", status: 302, kind: Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, classify(errorReply{c.status, c.header, fixture(t, c.file)}, clock()))
		})
	}
}

// Each of Google's words decides by itself, without the others that accompany it in the examples: in either envelope, and in the
// message. Otherwise a spent quota could be shown as lost access.
func TestClassifyByOneWord(t *testing.T) {
	classifies := func(what, body string, want Kind) {
		t.Helper()
		if e := classify(errorReply{status: 403, body: []byte(body)}, clock()); e.Kind != want || (e.RetryAfter > 0) != (want == Quota) {
			t.Errorf("%s: %v, again after %v, want %v", what, e.Kind, e.RetryAfter, want)
		}
	}
	for reason, want := range map[string]Kind{
		"quotaExceeded": Quota, "rateLimitExceeded": Quota, "userRateLimitExceeded": Quota, "dailyLimitExceeded": Quota, "RATE_LIMIT_EXCEEDED": Quota,
		"RESOURCE_EXHAUSTED": Quota, "insufficientPermissions": Misconfigured, "ACCESS_TOKEN_SCOPE_INSUFFICIENT": Misconfigured,
		"accessNotConfigured": Misconfigured, "SERVICE_DISABLED": Misconfigured, "forbidden": Forbidden, "PERMISSION_DENIED": Forbidden,
	} {
		classifies(reason+" as an error", `{"error":{"errors":[{"reason":"global"},{"reason":"`+reason+`"}]}}`, want)
		classifies(reason+" as a detail", `{"error":{"details":[{"reason":"`+reason+`"}]}}`, want)
		classifies(reason+" as the status", `{"error":{"status":"`+reason+`"}}`, want)
	}
	for message, want := range map[string]Kind{
		"Quota exceeded for quota metric 'Queries'": Quota, "Request had insufficient authentication scopes.": Misconfigured,
		"Google Search Console API has not been used in project 1 before": Misconfigured, "User does not have sufficient permission for site.": Forbidden,
	} {
		classifies(message, `{"error":{"message":"`+message+`"}}`, want)
	}
}

func TestClassifyToken(t *testing.T) {
	for _, c := range []classified{
		{name: "refresh token revoked", file: "token_revoked.json", status: 400, kind: Revoked, reason: "invalid_grant", message: "connect again"},
		{name: "service account deleted", file: "token_account_deleted.json", status: 400, kind: Revoked, reason: "invalid_grant",
			message: "refuses the credentials"},
		{name: "client unknown", file: "token_unknown_client.json", status: 401, kind: Revoked, reason: "invalid_client"},
		{name: "a wrong clock is not a revocation", file: "token_clock.json", status: 400, kind: Misconfigured, reason: "invalid_grant", message: "clock"},
		{name: "scope unknown", file: "token_scope.json", status: 400, kind: Misconfigured, reason: "invalid_scope"},
		{name: "endpoint in trouble", file: "token_internal.json", status: 500, kind: Unavailable, reason: "internal_failure", transient: true},
		{name: "too many requests", status: 429, kind: Unavailable, transient: true},
		{name: "no OAuth answer at all", file: "front_end.html", status: 404, kind: Unavailable, message: "issued no token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, classifyToken(errorReply{c.status, c.header, fixture(t, c.file)}, clock()))
		})
	}
}

func TestClean(t *testing.T) {
	f := func(in, want string, secrets ...string) {
		t.Helper()
		if got := clean(in, secrets...); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	f("one\r\nline\x00 only", "one line only")
	f("bad ya29.secret here", "bad [secret] here", "", "ya29.secret")
	f("bad 1%2F%2Frefresh here", "bad [secret] here", "1//refresh")
	f("asking for an access token", "asking for an access token", "s", "token") // shorter than any real secret
	f("assertion "+strings.Repeat("eyJh", 60)+" refused", "assertion […] refused")
	f(strings.Repeat("é ", 400), strings.Repeat("é ", 150)+"…")
	f("\xff", "?")
}

func FuzzClassify(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no fixtures: %v", err)
	}
	for _, file := range files {
		f.Add(403, "", fixture(f, filepath.Base(file)))
	}
	f.Add(400, "12", []byte(`{"error":{"errors":{"reason":[]},"details":"x"}}`))
	f.Add(503, "-1", []byte(`{"error":"ya29.secret-token","error_description":"ya29.secret-token"}`))
	f.Fuzz(func(t *testing.T, status int, header string, body []byte) {
		const secret = "ya29.secret-token"
		for _, e := range []*Error{
			classify(errorReply{status, header, body}, clock(), secret),
			classifyToken(errorReply{status, header, body}, clock(), secret),
		} {
			text := e.Error()
			if strings.Contains(text, secret) {
				t.Errorf("the error holds the secret: %q", text)
			}
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n") || utf8.RuneCountInString(text) > 600 {
				t.Errorf("unfit for a log line: %q", text)
			}
			if e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter {
				t.Errorf("RetryAfter %v", e.RetryAfter)
			}
			if e.Kind == Quota && e.RetryAfter == 0 {
				t.Errorf("a quota refusal without RetryAfter: %q", body)
			}
		}
	})
}
