package main

import (
	"net/http"
	"strings"
	"testing"

	"sara/bench/trace"
	"sara/cmd/sara/saratest"
	"sara/proxy/upstream/gscsim"
)

// A small replay has few repetitions, so that the bound for its ratio is looser than for the full trace.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	o := options{binary: saratest.Binary(t), replicas: 1, connections: 4, site: gscsim.Site{Queries: 60, Pages: 30},
		trace: trace.Config{Seed: 1, Requests: 300, Accounts: 1, People: 4, Properties: 10}}
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.result.Statuses[http.StatusOK] != int64(o.trace.Requests) || r.result.Requests() != int64(o.trace.Requests) {
		t.Errorf("answers to %d requests: %v %v", o.trace.Requests, r.result.Statuses, r.result.Examples)
	}
	if cache := r.result.Cache; cache["hit"]+cache["miss"] != int64(o.trace.Requests) || cache["miss"] == 0 {
		t.Errorf("X-Cache of %d requests: %v", o.trace.Requests, cache)
	}
	// Concurrent requests may cause calls for both a narrow and a wide sample of the same rows. On the other hand, the model
	// does not know that the narrow samples of a small site are complete.
	if model := r.models.atOnce.widening; r.calls < model*3/4 || r.calls > model*5/4 {
		t.Errorf("%d upstream calls, the model says %d", r.calls, model)
	}
	if r.calls == 0 || r.ratio() > 0.35 {
		t.Errorf("%d upstream calls to the URL-keyed %d: ratio %.3f", r.calls, r.models.atOnce.urlKeyed, r.ratio())
	}
	if s := r.saving(); s.Requests != 300 || s.Properties != 10 || s.Ways[0].Calls != float64(r.calls) || s.Ways[1].Calls != float64(r.models.atOnce.urlKeyed) {
		t.Errorf("the saving is %+v", s)
	}
	var text strings.Builder
	if err := r.print(&text); err != nil || !strings.Contains(text.String(), "| requests answered | 300 in") {
		t.Errorf("the report (%v):\n%s", err, &text)
	}
}

// The full trace by the models alone: what the rules save if nothing expires.
func TestModelOfTheFullTrace(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.trace.Anchor = 20_776
	m, err := count(o.trace, trace.Generate(o.trace))
	if err != nil {
		t.Fatal(err)
	}
	if m.atOnce.requests != o.trace.Requests {
		t.Errorf("%d requests counted of %d", m.atOnce.requests, o.trace.Requests)
	}
	kinds := calls{}
	for _, kind := range m.kinds() {
		kinds.add(*m.byKind[kind])
	}
	if kinds != m.atOnce {
		t.Errorf("the kinds add up to %+v, want %+v", kinds, m.atOnce)
	}
	if m.atOnce.widening*3 > m.atOnce.urlKeyed {
		t.Errorf("the rules call %d times, the URL-keyed cache %d: want a third at most", m.atOnce.widening, m.atOnce.urlKeyed)
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, args := range []string{"-requests=0", "-people=11", "-accounts=3 -properties=2", "-connections=0"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}
