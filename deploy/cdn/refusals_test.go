package cdn_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sara/proxy/upstream/gscsim"
)

// wantEnvelope checks an error envelope of the API.
func (a answer) wantEnvelope(t *testing.T, status int, code string) {
	t.Helper()
	var envelope struct {
		Success *bool
		Error   struct {
			Code, Message string
			RequestID     string `json:"request_id"`
			DocsURL       string `json:"docs_url"`
		}
	}
	err := json.Unmarshal(a.body, &envelope)
	e := envelope.Error
	if err != nil || a.status != status || e.Code != code || envelope.Success == nil || *envelope.Success || e.Message == "" || e.DocsURL == "" {
		t.Errorf("%d %s (%v), want %d %s", a.status, a.body, err, status, code)
	}
	if !regexp.MustCompile(`^req_[0-9a-f]{32}$`).MatchString(e.RequestID) || a.header.Get("X-Request-Id") != e.RequestID {
		t.Errorf("the request id is %q in the header and %q in the body", a.header.Get("X-Request-Id"), e.RequestID)
	}
	for name, want := range map[string]string{"Content-Type": "application/json; charset=utf-8", "Cache-Control": "private, no-store",
		"Vary": "Authorization, Accept-Encoding", "X-Content-Type-Options": "nosniff", "X-Cache": "bypass"} {
		// An operation with rows also varies by Accept; the proxy's own refusals do not know the operation.
		if got := strings.Replace(a.header.Get(name), "Authorization, Accept, ", "Authorization, ", 1); got != want {
			t.Errorf("%d: %s is %q, want %q", a.status, name, got, want)
		}
	}
}

func (w *world) test429(t *testing.T) {
	var a answer
	for range 20 { // the bucket refills by one request every 20 seconds
		if a = w.get(t, "tight", "/v1/me"); a.status == http.StatusTooManyRequests {
			break
		}
	}
	a.wantEnvelope(t, http.StatusTooManyRequests, "RATE_LIMITED")
	if direct := w.from(t, w.replicas[1].base, "tight", "/v1/me"); direct.fixed() != a.fixed() {
		t.Errorf("%s, but directly %s", a.fixed(), direct.fixed())
	}
	if !regexp.MustCompile(`^([1-9]|1[0-9]|20)$`).MatchString(a.header.Get("Retry-After")) || a.header.Get("X-RateLimit-Limit") != "3" ||
		a.header.Get("X-RateLimit-Remaining") != "0" || a.header.Get("X-RateLimit-Reset") == "" {
		t.Errorf("headers %v", a.header)
	}
}

func (w *world) test503(t *testing.T) {
	if err := w.simulator.SetFaults(gscsim.Faults{Status: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	a := w.get(t, "red", filtered)
	if err := w.simulator.SetFaults(gscsim.Faults{}); err != nil {
		t.Fatal(err)
	}
	a.wantEnvelope(t, http.StatusServiceUnavailable, "FILTERED_DATA_UNAVAILABLE")
	if a.header.Get("Retry-After") == "" || a.header.Get("X-RateLimit-Limit") != "100000" {
		t.Errorf("headers %v", a.header)
	}
}

func (w *world) testLongURL(t *testing.T) {
	ofLength := func(n int) string { return "/v1/me?x=" + strings.Repeat("x", n-len("/v1/me?x=")) }
	w.get(t, "red", ofLength(24<<10)).wantEnvelope(t, http.StatusBadRequest, "UNSUPPORTED_PARAMETER")
	a := w.get(t, "red", ofLength(24<<10+1))
	a.wantEnvelope(t, http.StatusRequestURITooLong, "REQUEST_TOO_LARGE")
	if a.header.Get("Server") != "sara" {
		t.Error("the error does not come from sara")
	}
	// nginx rejects requests for which sara would close the connection, so no replica is marked as failed.
	for range 8 {
		w.get(t, "red", ofLength(40<<10)).wantEnvelope(t, http.StatusRequestURITooLong, "REQUEST_TOO_LARGE")
		w.get(t, "red", "/v1/me", "X-Long", strings.Repeat("x", 31<<10)).wantEnvelope(t, http.StatusRequestHeaderFieldsTooLarge, "REQUEST_TOO_LARGE")
		if a := w.get(t, "red", "/v1/me", "X-Long", strings.Repeat("x", 29<<10)); a.status != http.StatusOK {
			t.Errorf("a header just below the limit: %d %s", a.status, a.body)
		}
	}
}
