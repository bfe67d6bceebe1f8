package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sara/bench/trace"
	"sara/cmd/sara/saratest"
	"sara/proxy/upstream/gscsim"
)

// A sequential replay makes exactly the calls that the model of sara's rules predicts. A small replay has few repetitions, and its
// ranges depend on today's date, so the bound for its ratio is looser than for the full trace.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	for i, most := range []float64{0.34, 0.65} {
		g := traces()[i]
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			replay(t, g, most)
		})
	}
}

func replay(t *testing.T, g generated, most float64) {
	o := options{binary: saratest.Binary(t), replicas: 1, connections: 1, site: gscsim.Site{Queries: 60, Pages: 30},
		trace: trace.Config{Seed: 1, Requests: 300, Accounts: 2, People: 4, Properties: 10}}
	r, err := run(t.Context(), o, g)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(len(r.requests))
	if r.result.Statuses[http.StatusOK] != n || r.result.Requests() != n {
		t.Errorf("answers to %d requests: %v %v", n, r.result.Statuses, r.result.Examples)
	}
	if cache := r.result.Cache; cache["hit"]+cache["miss"] != n || cache["miss"] == 0 {
		t.Errorf("X-Cache of %d requests: %v", n, cache)
	}
	measured := 0
	for kind, c := range r.models.byKind {
		if measured += c.measured; c.measured != c.widening {
			t.Errorf("%s: %d upstream calls, the model says %d", kind, c.measured, c.widening)
		}
	}
	if r.calls != measured || r.calls == 0 || r.ratio() > most {
		t.Errorf("%d upstream calls, %d by kind, to the URL-keyed %d: ratio %.3f", r.calls, measured, r.models.atOnce.urlKeyed, r.ratio())
	}
	if s := r.saving(); s.Requests != int(n) || s.Properties != 10 || s.Ways[0].Calls != float64(r.calls) ||
		s.Ways[1].Calls != float64(r.models.atOnce.urlKeyed) {
		t.Errorf("the saving is %+v", s)
	}
	var text strings.Builder
	if err := r.print(&text); err != nil || !strings.Contains(text.String(), fmt.Sprintf("| requests answered | %d in", n)) {
		t.Errorf("the report (%v):\n%s", err, &text)
	}
}

// A request without an answer costs no call, so it would improve the ratio.
func TestUnansweredRequestFails(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	o := options{binary: saratest.Binary(t), replicas: 1, connections: 1, trace: trace.Config{Requests: 1, Accounts: 1, People: 1, Properties: 1}}
	g := generated{"trace of an unknown property", func(trace.Config) []trace.Request { return []trace.Request{{Property: 7, Endpoint: "summary"}} }}
	if _, err := run(t.Context(), o, g); err == nil || !strings.Contains(err.Error(), "1 of 1 answers") {
		t.Errorf("the run ends with %v", err)
	}
}

// The full trace by the models alone: what the rules save if nothing expires.
func TestModelOfTheFullTrace(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.trace.Anchor = 20_776
	m, err := count(o.trace, true, trace.Generate(o.trace))
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
	if m.atOnce.widening*5 > m.atOnce.urlKeyed {
		t.Errorf("the rules call %d times, the URL-keyed cache %d: want a fifth at most", m.atOnce.widening, m.atOnce.urlKeyed)
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, args := range []string{"-requests=0", "-people=11", "-accounts=3 -properties=2", "-connections=0"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}
