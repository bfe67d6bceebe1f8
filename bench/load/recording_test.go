package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An echo answers with the path and the question without the digits at its end, and counts. It fails if the question says so.
type echo struct{ asked int }

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.asked++
	question, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(string(question), "fail") {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, r.URL.Path+" "+strings.TrimRight(string(question), "0123456789"))
}

func TestRecordingAnswersWhatDiffersByAnExcludedWord(t *testing.T) {
	for _, tt := range []struct {
		name      string
		questions []string // each a path and a text
		asked     int      // of them, by the upstream
	}{
		{"other words", []string{"/a not zzz1", "/a not zzz2", "/a not zzz31"}, 1},
		{"other sites", []string{"/a not zzz1", "/b not zzz1"}, 2},
		{"other questions", []string{"/a not zzz1", "/a also not zzz1"}, 2},
		{"no excluded word", []string{"/a all", "/a all"}, 2},
		{"failures", []string{"/a fail zzz1", "/a fail zzz2"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upstream := new(echo)
			recorded := record(upstream)
			for _, question := range tt.questions {
				path, text, _ := strings.Cut(question, " ")
				code, body := post(t, recorded, path, text)
				wantCode, want := post(t, new(echo), path, text)
				if code != wantCode || body != want {
					t.Errorf("%s: %d %q, want %d %q", question, code, body, wantCode, want)
				}
			}
			if upstream.asked != tt.asked {
				t.Errorf("the upstream was asked %d times, want %d", upstream.asked, tt.asked)
			}
		})
	}
}

// post sends a question to a handler, and returns the status and the body, unpacked.
func post(t *testing.T, to http.Handler, path, question string) (code int, body string) {
	t.Helper()
	call := httptest.NewRequest(http.MethodPost, path, strings.NewReader(question))
	call.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, call)
	var text io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
		var err error
		if text, err = gzip.NewReader(w.Body); err != nil {
			t.Fatal(err)
		}
	}
	plain, err := io.ReadAll(text)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(plain)
}
