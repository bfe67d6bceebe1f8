package main

import (
	"net/http"
	"strings"
	"testing"

	"sara/bench/trace"
	"sara/proxy/upstream/gscsim"
)

// A small replay. It has few repeats, so the bound on its ratio is looser than that of the full trace.
func TestReplay(t *testing.T) {
	o := options{replicas: 1, concurrency: 4, site: gscsim.Site{Queries: 60, Pages: 30},
		trace: trace.Config{Seed: 1, Requests: 300, Accounts: 1, People: 4, Properties: 10}}
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.tally.Statuses[http.StatusOK] != o.trace.Requests || r.tally.Requests() != o.trace.Requests {
		t.Errorf("of %d requests, these were answered: %v %v", o.trace.Requests, r.tally.Statuses, r.tally.Examples)
	}
	if cache := r.tally.Cache; cache["hit"]+cache["miss"] != o.trace.Requests || cache["miss"] == 0 {
		t.Errorf("X-Cache of %d requests: %v", o.trace.Requests, cache)
	}
	// With several requests at once, a narrow and a wide sample of the same rows may both be asked for; and what the model
	// does not know, that a small site's narrow samples have everything, saves some.
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

// The full trace, by the models alone: what the rules save when nothing expires.
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

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range []string{"-requests=0", "-people=11", "-accounts=3 -properties=2", "-concurrency=0"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s passes", args)
		}
	}
}
