package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"sara/proxy/cache"
	"sara/proxy/openapi"
)

// A panic or an unknown error fails its request only, wherever it occurs.
func TestEdge500(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := func(path string, serve func(*Server, context.Context, *exchange) (reply, error)) route {
		return route{Path: path, Operation: "broken", Open: true, serve: serve}
	}
	fine := cache.NewAnswer([]byte(`{}`), time.Time{})
	edge := w.server.newEdge([]route{
		broken("/panic", func(*Server, context.Context, *exchange) (reply, error) { panic("secret of the process") }),
		broken("/nil", func(_ *Server, _ context.Context, x *exchange) (reply, error) {
			return reply{}, errors.New(x.property.ID)
		}),
		broken("/error", func(*Server, context.Context, *exchange) (reply, error) {
			return reply{}, errors.New("secret of the process")
		}),
		broken("/body", func(*Server, context.Context, *exchange) (reply, error) {
			return reply{answer: fine, tail: func([]byte, string, string) []byte { panic("secret of the process") }}, nil
		}),
		broken("/nothing", func(*Server, context.Context, *exchange) (reply, error) { return reply{}, nil }),
		broken("/fine", func(*Server, context.Context, *exchange) (reply, error) {
			return reply{answer: fine}, nil
		}),
	})
	dialled := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	listener := w.server.newListener(dialled)
	go func() { served <- edge.Serve(listener) }()
	client := &fasthttp.HostClient{Addr: "sara", Dial: func(string) (net.Conn, error) { return dialled.Dial() }}
	for _, path := range []string{"/panic", "/nil", "/error", "/body", "/nothing"} {
		w.run(path, func(t *testing.T) {
			var request fasthttp.Request
			var answer fasthttp.Response
			request.SetRequestURI("http://sara" + path)
			w.must(client.Do(&request, &answer))
			id := string(answer.Header.Peek("X-Request-Id"))
			body := string(answer.Body())
			if answer.StatusCode() != http.StatusInternalServerError || !strings.Contains(body, `"INTERNAL_ERROR"`) || !strings.Contains(body, id) {
				t.Errorf("answers %d %s", answer.StatusCode(), body)
			}
			if strings.Contains(body, "secret") || strings.Contains(body, "goroutine") {
				t.Errorf("the answer shows internals: %s", body)
			}
			if cache := string(answer.Header.Peek("Cache-Control")); strings.Contains(cache, "public") {
				t.Errorf("an error with Cache-Control %q", cache)
			}
			if !strings.Contains(w.logged(), id) {
				t.Errorf("the log does not name %s", id)
			}
			request.SetRequestURI("http://sara/fine")
			w.must(client.Do(&request, &answer))
			if answer.StatusCode() != http.StatusOK {
				t.Errorf("the next request answers %d", answer.StatusCode())
			}
		})
	}
	client.CloseIdleConnections()
	w.must(listener.Close())
	w.must(<-served)
	if metrics := w.metrics(); !strings.Contains(metrics, "sara_panics_total 4") {
		t.Errorf("the panics are not counted: %s", metrics)
	}
}

// The envelope reads back as what was written, without escapes that JSON does not need.
func FuzzErrorBody(f *testing.F) {
	f.Add(`the header Authorization: Bearer <API_KEY> & "quotes"`, "req_1", "https://api.example.com/docs?a=1&b=2")
	f.Add("tab\t, line\n, \x00, \x7f, \u2028, invalid \xff, ünïcode", "", `\`)
	f.Fuzz(func(t *testing.T, message, requestID, docsURL string) {
		body := appendError(nil, &apiError{code: openapi.CodeInternal, message: message}, requestID, docsURL)
		var got struct {
			Success *bool             `json:"success"`
			Error   map[string]string `json:"error"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		valid := func(text string) string { return string([]rune(text)) } // every invalid byte is replaced by itself
		want := map[string]string{"code": openapi.CodeInternal, "message": valid(message), "request_id": valid(requestID), "docs_url": valid(docsURL)}
		if !maps.Equal(got.Error, want) {
			t.Errorf("appendError writes %q, want %q", got.Error, want)
		}
		if got.Success == nil || *got.Success || strings.Contains(message, "<") && !bytes.Contains(body, []byte("<")) {
			t.Errorf("appendError writes %s", body)
		}
	})
}
