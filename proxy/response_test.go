package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"sara/proxy/media"
)

// A response is an answer, read whole.
type response struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

// get requests a path with the named key, and checks the answer against the served OpenAPI document.
func (w *world) get(key, path string, query ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base+path+queryString(query), nil)
	w.must(err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+w.keys[key])
	}
	return w.do(request)
}

// live is get with Cache-Control: no-cache.
func (w *world) live(key, path string, query ...string) response {
	w.t.Helper()
	return w.getWith(key, path, query, "Cache-Control", "no-cache")
}

// getWith is get with headers, as name, value pairs.
func (w *world) getWith(key, path string, query []string, headers ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base+path+queryString(query), nil)
	w.must(err)
	request.Header.Set("Authorization", "Bearer "+w.keys[key])
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return w.do(request)
}

// queryString encodes name, value pairs.
func queryString(pairs []string) string {
	if len(pairs) == 0 {
		return ""
	}
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

func (w *world) do(request *http.Request) response {
	w.t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	defer func() { w.must(answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	r := response{status: answer.StatusCode, header: answer.Header, body: body}
	if kind := r.header.Get("Content-Type"); kind == media.CSV.ContentType() || kind == media.NDJSON.ContentType() {
		r.json = nil
	} else if err := json.Unmarshal(body, &r.json); err != nil && r.status != http.StatusNotModified {
		w.t.Fatalf("%s answers %d with no JSON object: %q", request.URL, r.status, body)
	}
	w.document.check(w.t, request, r)
	return r
}

// code is the error code of an answer, empty for a success.
func (r response) code() string {
	failure, _ := r.json["error"].(map[string]any)
	code, _ := failure["code"].(string)
	return code
}

func (r response) data() map[string]any { data, _ := r.json["data"].(map[string]any); return data }
func (r response) meta() map[string]any { meta, _ := r.json["meta"].(map[string]any); return meta }
func (r response) rows() []any          { rows, _ := r.data()["rows"].([]any); return rows }
