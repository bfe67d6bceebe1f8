package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

const key = "sara_live_KEY"

// relayed relays lines to a server, and returns the lines of the answers in the order of their ids, and the log.
func relayed(t *testing.T, handler http.HandlerFunc, lines ...string) (answers []string, log string) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	var out, said bytes.Buffer
	c := Config{Endpoint: server.URL + "/mcp", Key: key, Transport: server.Client().Transport, Log: &said}
	if err := Run(t.Context(), c, strings.NewReader(strings.Join(lines, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	answers = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	slices.SortFunc(answers, func(a, b string) int { return strings.Compare(gjson.Get(a, "id").Raw, gjson.Get(b, "id").Raw) })
	return answers, said.String()
}

// answering answers every request with a status, header fields in pairs, and a body.
func answering(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// The body reaches the server as the client wrote it, with the header fields that its revision of the protocol has.
func TestMessagesAreForwardedUnchanged(t *testing.T) {
	t.Parallel()
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	for _, test := range []struct{ name, line, revision, method, of string }{
		{"initialize", `{"jsonrpc":"2.0", "id":0, "method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "", "", ""},
		{"before initialize", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "", "", ""},
		{"modern discovery", `{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{` + modern + `}}`, "2026-07-28", "server/discover", ""},
		{"modern tool", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_overview","uri":"x",` + modern + `}}`, "2026-07-28",
			"tools/call", "get_overview"},
		{"modern prompt", `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"größe",` + modern + `}}`, "2026-07-28",
			"prompts/get", "=?base64?Z3LDtsOfZQ==?="},
		{"modern resource", `{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"sara://x",` + modern + `}}`, "2026-07-28",
			"resources/read", "sara://x"},
		{"modern notification", `{"jsonrpc":"2.0","method":"notifications/x","params":{` + modern + `}}`, "2026-07-28", "notifications/x", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got *http.Request
			var body []byte
			relayed(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				answering(http.StatusOK, `{"jsonrpc":"2.0","id":0,"result":{}}`)(w, r)
			}, test.line)
			if string(body) != test.line {
				t.Errorf("the server receives %s, want %s", body, test.line)
			}
			for name, want := range map[string]string{"Authorization": "Bearer " + key,
				"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
				"MCP-Protocol-Version": test.revision, "Mcp-Method": test.method, "Mcp-Name": test.of, "Idempotency-Key": ""} {
				if value := got.Header.Get(name); value != want {
					t.Errorf("%s: %q, want %q", name, value, want)
				}
			}
		})
	}
}

func TestHeaderValuesAreEncoded(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"us-west1": "us-west1", "a b": "a b", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "ü": "=?base64?w7w=?="} {
		if got := encode(value); got != want {
			t.Errorf("%q is sent as %q, want %q", value, got, want)
		}
	}
}

// After initialize, older revisions send what was negotiated with each message.
func TestTheNegotiatedRevisionIsSent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent := make(map[string]string)
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		sent[gjson.GetBytes(body, "method").String()] = r.Header.Get("MCP-Protocol-Version")
		mu.Unlock()
		if !gjson.GetBytes(body, "id").Exists() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if r.Header.Get("MCP-Protocol-Version") == "" {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
	server := httptest.NewServer(http.HandlerFunc(handler))
	defer server.Close()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error)
	go func() {
		ended <- Run(t.Context(), Config{Endpoint: server.URL, Transport: server.Client().Transport, Log: io.Discard}, in, out)
	}()
	buffer := make([]byte, 1000)
	for _, line := range []string{`{"id":1,"method":"initialize"}`, `{"id":1,"method":"tools/list"}`} {
		if _, err := io.WriteString(client, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.Read(buffer); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = io.WriteString(client, `{"method":"notifications/initialized"}`+"\n")
	_ = client.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if sent["initialize"] != "" || sent["tools/list"] != "2025-06-18" || sent["notifications/initialized"] != "2025-06-18" {
		t.Errorf("the revisions sent are %v", sent)
	}
}

// What the server answers in JSON-RPC reaches the client as one line, whatever its status. An error without an id gets it.
func TestAnswersReachTheClient(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":"7","method":"tools/call"}`
	for _, test := range []struct {
		name   string
		server http.HandlerFunc
		want   []string
	}{
		{"over several lines", answering(200, "{\n  \"jsonrpc\": \"2.0\",\n \"id\":\"7\",\"result\":{\"text\": \"a\\nb\"}}"),
			[]string{`{"jsonrpc":"2.0","id":"7","result":{"text":"a\nb"}}`}},
		{"400", answering(400, `{"jsonrpc":"2.0","id":"7","error":{"code":-32020,"message":"x"}}`),
			[]string{`{"jsonrpc":"2.0","id":"7","error":{"code":-32020,"message":"x"}}`}},
		{"404", answering(404, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"}}`),
			[]string{`{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"},"id":"7"}`}},
		{"id null", answering(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}`),
			[]string{`{"jsonrpc":"2.0","id":"7","error":{"code":-1,"message":"x"}}`}},
		{"stream with an event that is no message", answering(200, "data: {\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}\n\n",
			"Content-Type", "text/event-stream"), []string{`{"jsonrpc":"2.0","id":"7","result":{}}`}},
		{"stream", answering(200, "event: message\ndata: {\"jsonrpc\":\"2.0\",\nid: 1\ndata:\"method\":\"notifications/progress\"}\n\n: idle\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}\n\n",
			"Content-Type", "text/event-stream; charset=utf-8"),
			[]string{`{"jsonrpc":"2.0","method":"notifications/progress"}`, `{"jsonrpc":"2.0","id":"7","result":{}}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got, log := relayed(t, test.server, call); !slices.Equal(got, test.want) || log != "" {
				t.Errorf("%q, want %q\n%s", got, test.want, log)
			}
		})
	}
}

// A request without a JSON-RPC answer gets an error that names the fix.
func TestFailuresAreExplained(t *testing.T) {
	t.Parallel()
	const refused = `{"success":false,"error":{"code":"%s","message":"the message"}}`
	for _, test := range []struct {
		name   string
		server http.HandlerFunc
		code   int
		want   []string
	}{
		{"401", answering(401, fmt.Sprintf(refused, "API_KEY_REVOKED")), 401, []string{"API_KEY_REVOKED: the message", "SARA_API_KEY", "--key-file"}},
		{"403", answering(403, fmt.Sprintf(refused, "API_ACCESS_REQUIRED")), 403, []string{"HTTP 403 API_ACCESS_REQUIRED: the message"}},
		{"404", answering(404, "<html>", "Content-Type", "text/html"), 404,
			[]string{"HTTP 404 Not Found; there is no MCP endpoint", "--url"}},
		{"405", answering(405, ""), 405, []string{"HTTP 405 Method Not Allowed; there is no MCP endpoint", "--url"}},
		{"429", answering(429, fmt.Sprintf(refused, "RATE_LIMITED"), "Retry-After", "17"), 429,
			[]string{"RATE_LIMITED", "again in 17 s", `"retry_after_seconds":17`}},
		{"503", answering(503, fmt.Sprintf(refused, "SERVICE_UNAVAILABLE"), "Retry-After", "5"), 503, []string{"SERVICE_UNAVAILABLE", "again in 5 s"}},
		{"503 until a date", answering(503, fmt.Sprintf(refused, "SERVICE_UNAVAILABLE"), "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"), 503,
			[]string{`SERVICE_UNAVAILABLE: the message"`}},
		{"504 of a proxy", answering(504, "", "Content-Type", "text/plain"), 504, []string{`HTTP 504 Gateway Timeout"`}},
		{"502 of a proxy", answering(502, "bad\ngateway", "Content-Type", "text/plain"), 502, []string{"HTTP 502 Bad Gateway: bad gateway"}},
		{"a long text of a proxy", answering(502, strings.Repeat("ü", 501), "Content-Type", "text/plain"), 502,
			[]string{"HTTP 502 Bad Gateway: " + strings.Repeat("ü", 500) + "…\""}},
		{"a redirect", answering(301, "", "Location", "https://elsewhere.example/mcp"), 301, []string{"https://elsewhere.example/mcp", "--url"}},
		{"nothing", answering(200, ""), 502, []string{"too early"}},
		{"a stream that ends", answering(200, "data: {}\n", "Content-Type", "text/event-stream"), 502, []string{"too early"}},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502,
			[]string{"cannot be reached", "EOF", "--url"}},
		{"half an answer", answering(200, "{", "Content-Length", "9"), 502, []string{"/mcp ended its answer too early", "send the request again"}},
		{"half a stream", answering(200, "data: {", "Content-Type", "text/event-stream", "Content-Length", "99"), 502,
			[]string{"/mcp ended its answer too early", "send the request again"}},
		{"a stream with a line without end", answering(200, strings.Repeat(" ", maxMessage+1), "Content-Type", "text/event-stream"), 502,
			[]string{"more than 4194304 bytes", "ask for less"}},
		{"a stream with an event without end", answering(200, strings.Repeat("data: "+strings.Repeat(" ", 1<<20)+"\n", 5),
			"Content-Type", "text/event-stream"), 502, []string{"more than 4194304 bytes", "ask for less"}},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request) {
			for range maxMessage/1000 + 1 {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 1000))
			}
		}, 502, []string{"more than 4194304 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, log := relayed(t, test.server, `{"jsonrpc":"2.0","id":[1],"method":"tools/call"}`)
			if len(got) != 1 || gjson.Get(got[0], "error.code").Int() != int64(test.code) || gjson.Get(got[0], "id").Raw != "[1]" ||
				gjson.Get(got[0], "jsonrpc").String() != "2.0" {
				t.Fatalf("%q, want one error %d", got, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(got[0], want) {
					t.Errorf("%s does not contain %q", got[0], want)
				}
			}
			if strings.Contains(got[0], `"data"`) != strings.Contains(got[0], " again in ") {
				t.Errorf("%s has data without a time to wait for, or the reverse", got[0])
			}
			if strings.Contains(got[0]+log, key) || strings.Count(log, "\n") != 1 || !strings.HasPrefix(log, "sara: tools/call: ") {
				t.Errorf("the log is %q, want one line without the key", log)
			}
			if got, _ := relayed(t, test.server, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); got[0] != "" {
				t.Errorf("a notification is answered with %q", got)
			}
		})
	}
}

// What is no request gets no answer, so that the log is where people see that it failed.
func TestTheLogNamesWhatFailsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const answer, notification = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/x"}`
	for _, test := range []struct {
		server      http.HandlerFunc
		line, label string
	}{
		{answering(403, `{"error":{"message":"no"}}`), answer, "sara: an answer of the client: HTTP 403"},
		{answering(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such\nmethod"}}`), notification,
			"sara: notifications/x: no such method\n"},
	} {
		if got, log := relayed(t, test.server, test.line); got[0] != "" || !strings.HasPrefix(log, test.label) {
			t.Errorf("%s: answers %q, logs %q, want %q", test.line, got, log, test.label)
		}
	}
	for _, accepting := range []http.HandlerFunc{answering(202, ""), answering(200, `{"jsonrpc":"2.0","id":null,"result":{}}`)} {
		if got, log := relayed(t, accepting, notification); got[0] != "" || log != "" {
			t.Errorf("a notification that is accepted: answers %q, logs %q", got, log)
		}
	}
}

func TestLinesThatAreNoMessageAreRefused(t *testing.T) {
	t.Parallel()
	got, _ := relayed(t, answering(200, `{"jsonrpc":"2.0","id":1,"result":{}}`), "", "{", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "  ",
		`{"id":1,"method":"ping"}`)
	if len(got) != 3 || gjson.Get(got[0], "result").Raw != "{}" {
		t.Fatalf("%q, want two errors and an answer", got)
	}
	for i, code := range []int64{-32700, -32600} {
		if line := got[1+i]; gjson.Get(line, "error.code").Int() != code || gjson.Get(line, "id").Raw != "null" {
			t.Errorf("%s, want the error %d without an id", line, code)
		}
	}
	var out bytes.Buffer
	long := strings.NewReader(strings.Repeat(" ", maxMessage+1))
	if err := Run(t.Context(), Config{Log: io.Discard}, long, &out); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("a line that is too long: %v", err)
	}
}

// transport is a server in the process of its test, so that the test's clock is its own.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAtMostEightRequestsAreInFlightAndAllAreAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most, all atomic.Int32
		slow := transport(func(*http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			all.Add(1)
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`))}, nil
		})
		var out bytes.Buffer
		lines := strings.Repeat(`{"id":1,"method":"ping"}`+"\n", 20)
		if err := Run(t.Context(), Config{Endpoint: "http://x", Transport: slow, Log: io.Discard}, strings.NewReader(lines), &out); err != nil {
			t.Fatal(err)
		}
		if most.Load() != atOnce || all.Load() != 20 || strings.Count(out.String(), "\n") != 20 {
			t.Errorf("%d of %d requests at once, %d answers", most.Load(), all.Load(), strings.Count(out.String(), "\n"))
		}
	})
}

// silent is a server that answers nothing until the request ends.
func silent(begun chan<- struct{}) transport {
	return func(r *http.Request) (*http.Response, error) {
		begun <- struct{}{}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
}

// stalling is a server whose answer stops after its header.
func stalling(r *http.Request) (*http.Response, error) {
	body, stalls := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = stalls.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: 200, Body: body}, nil
}

func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]transport{"no answer": silent(make(chan struct{}, 1)), "half an answer": stalling} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				c := Config{Endpoint: "http://x", Transport: server, Log: io.Discard}
				if err := Run(t.Context(), c, strings.NewReader(`{"id":1,"method":"ping"}`), &out); err != nil {
					t.Fatal(err)
				}
				if got := out.String(); gjson.Get(got, "error.code").Int() != 504 || !strings.Contains(got, "did not answer within 2m0s") {
					t.Errorf("%s, want an error 504", got)
				}
			})
		})
	}
}

// A request that the client cancels ends at the server and gets no answer; others go on.
func TestACancelledRequestGetsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		in, client := io.Pipe()
		var out bytes.Buffer
		ended := make(chan error)
		go func() {
			ended <- Run(t.Context(), Config{Endpoint: "http://x", Transport: silent(begun), Log: io.Discard}, in, &out)
		}()
		began := time.Now()
		_, _ = io.WriteString(client, `{"id":1,"method":"ping"}`+"\n")
		<-begun
		_, _ = io.WriteString(client, `{"method":"notifications/cancelled","params":{"requestId":2}}`+"\n"+
			`{"method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
		_ = client.Close()
		if err := <-ended; err != nil || out.Len() > 0 || time.Since(began) > 0 {
			t.Errorf("it ended after %v with %v and the answers %q", time.Since(began), err, out.String())
		}
	})
}

// The end of the context ends requests, and does not wait for the input.
func TestAnInterruptEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		begun := make(chan struct{})
		in, client := io.Pipe()
		var out bytes.Buffer
		ended := make(chan error)
		go func() {
			ended <- Run(ctx, Config{Endpoint: "http://x", Transport: silent(begun), Log: io.Discard}, in, &out)
		}()
		_, _ = io.WriteString(client, `{"id":1,"method":"ping"}`+"\n")
		<-begun
		interrupt()
		if err := <-ended; !errors.Is(err, context.Canceled) || out.Len() > 0 {
			t.Errorf("it ended with %v and the answers %q", err, out.String())
		}
		_ = client.Close() // ends the reading, which only the end of the process would
	})
}

// broken is a client that reads no answers.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAClosedOutputEndsIt(t *testing.T) {
	t.Parallel()
	const answer, progress = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/progress"}`
	for name, handler := range map[string]http.HandlerFunc{
		"an answer":           answering(200, answer),
		"a failure":           answering(503, ""),
		"an answer, streamed": answering(200, "data: "+answer+"\n\n", "Content-Type", "text/event-stream"),
		"a message, streamed": answering(200, "data: "+progress+"\n\n", "Content-Type", "text/event-stream"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, client := io.Pipe()
			defer func() { _ = client.Close() }()
			server := httptest.NewServer(handler)
			defer server.Close()
			ended := make(chan error)
			go func() {
				ended <- Run(t.Context(), Config{Endpoint: server.URL, Transport: server.Client().Transport, Log: io.Discard}, in, broken{})
			}()
			_, _ = io.WriteString(client, `{"id":1,"method":"ping"}`+"\n")
			if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestABrokenInputEndsIt(t *testing.T) {
	t.Parallel()
	c := Config{Log: io.Discard}
	if err := Run(t.Context(), c, iotest.ErrReader(io.ErrNoProgress), io.Discard); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("it ended with %v", err)
	}
}
