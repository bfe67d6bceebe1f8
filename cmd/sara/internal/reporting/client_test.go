package reporting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a server whose answers are in a list, and that then answers with success.
type answers struct {
	list []answer

	mu   sync.Mutex
	sent int // guarded by mu
}

type answer struct {
	status int
	after  string // Retry-After
	body   string
	err    error
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	next := answer{status: 200, body: `{"success":true}`}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent < len(a.list) {
		next = a.list[a.sent]
	}
	a.sent++
	response := &http.Response{StatusCode: next.status, Status: fmt.Sprint(next.status), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(next.body)), Request: r}
	if next.after != "" {
		response.Header.Set("Retry-After", next.after)
	}
	if next.status == http.StatusFound {
		response.Header.Set("Location", "https://elsewhere.example/")
	}
	return response, next.err
}

func refusal(status int, code, after string) answer {
	return answer{status: status, after: after, body: `{"success":false,"error":{"code":"` + code + `","message":"no; try again in some seconds"}}`}
}

func TestClientWaitsForWhatPasses(t *testing.T) {
	broken := answer{err: errors.New("connection refused")}
	success := answer{status: 200, body: `{"success":true}`}
	for _, test := range []struct {
		name    string
		answers []answer
		waits   time.Duration
		stops   bool
		err     string
	}{
		{"a success", nil, 0, false, ""},
		{"the minute twice", []answer{refusal(429, "RATE_LIMITED", "20"), refusal(429, "RATE_LIMITED", "60")}, 80 * time.Second, false, ""},
		{"the hour", []answer{refusal(429, "RATE_LIMITED", "61")}, 0, true, "RATE_LIMITED: no"},
		{"the day", []answer{refusal(429, "QUOTA_EXCEEDED", "7200")}, 0, true, "QUOTA_EXCEEDED: no"},
		{"a property's minute", []answer{refusal(429, "UPSTREAM_QUOTA_EXCEEDED", "2")}, 2 * time.Second, false, ""},
		{"a property's cooldown", []answer{refusal(429, "UPSTREAM_QUOTA_EXCEEDED", "900")}, 0, false, "UPSTREAM_QUOTA_EXCEEDED: no"},
		{"unavailable", []answer{refusal(503, "SERVICE_UNAVAILABLE", "1"), refusal(503, "SERVICE_UNAVAILABLE", "2")}, 3 * time.Second, false, ""},
		{"unavailable for long", []answer{refusal(503, "UPSTREAM_UNAVAILABLE", "6")}, 0, false, "UPSTREAM_UNAVAILABLE: no"},
		{"unavailable for good", []answer{refusal(503, "UPSTREAM_UNAVAILABLE", "")}, 0, false, "UPSTREAM_UNAVAILABLE: no"},
		{"a wrong key", []answer{refusal(401, "INVALID_API_KEY", "")}, 0, true, "INVALID_API_KEY: no"},
		{"a missing scope", []answer{refusal(403, "INSUFFICIENT_SCOPE", "")}, 0, true, "INSUFFICIENT_SCOPE: no"},
		{"a bad parameter", []answer{refusal(400, "VALIDATION_ERROR", "")}, 0, false, "VALIDATION_ERROR: no"},
		{"a wrong address", []answer{broken}, 0, true, "http://sara.example does not answer: connection refused"},
		{"another server", []answer{{status: 200, body: "<html>"}}, 0, true,
			"http://sara.example answers 200, and not as sara does: name the public address of sara with --url"},
		{"another API", []answer{{status: 200, body: `{"ok":true}`}}, 0, true, "http://sara.example answers 200, and not as sara does"},
		{"a redirect", []answer{{status: 302}}, 0, true, "http://sara.example redirects to https://elsewhere.example/: name that server with --url"},
		{"a server that restarts", []answer{success, broken, {status: 502, body: "bad gateway"}}, 3 * time.Second, false, ""},
		{"a server that goes away", []answer{success, broken, broken, broken, broken, broken}, 15 * time.Second, true, "does not answer"},
		{"a server that goes on refusing", repeated(refusal(503, "SERVICE_UNAVAILABLE", "5"), 9), 20 * time.Second, false, "SERVICE_UNAVAILABLE: no"},
		{"a limit that others use up", repeated(refusal(429, "RATE_LIMITED", "1"), 100), 60 * time.Second, true, "RATE_LIMITED: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &answers{list: test.answers}
				var told bytes.Buffer
				c := &Client{URL: "http://sara.example", Key: "k", Patience: time.Minute, Transport: server, Now: time.Now,
					Waiting: func(server string, until time.Time, reason error) { _, _ = fmt.Fprintln(&told, server, until, reason) }}
				began := time.Now()
				if len(test.answers) > 0 && test.answers[0] == success {
					if _, err := c.get(t.Context(), "/v1/me", nil); err != nil {
						t.Fatal(err)
					}
				}
				_, err := c.get(t.Context(), "/v1/me", nil)
				if test.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) || stops(err) != test.stops {
					t.Errorf("error %v, which stops: %v; want %q, %v", err, stops(err), test.err, test.stops)
				}
				if waited := time.Since(began); waited != test.waits {
					t.Errorf("it waits %v, want %v", waited, test.waits)
				}
				asked := server.sent
				if _, again := c.get(t.Context(), "/v1/me", nil); test.stops && (server.sent != asked || again.Error() != err.Error()) {
					t.Errorf("a run that has stopped asks again: %v", again)
				}
				if strings.Contains(told.String(), "try again") {
					t.Errorf("each wait has a text of its own: %s", &told)
				}
			})
		})
	}
}

func repeated(a answer, n int) (list []answer) {
	for range n {
		list = append(list, a)
	}
	return list
}

func TestClientsWaitIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{URL: "http://sara.example", Patience: time.Hour, Now: time.Now, Waiting: func(string, time.Time, error) {},
			Transport: &answers{list: []answer{refusal(429, "RATE_LIMITED", "3600")}}}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := c.get(ctx, "/v1/me", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
