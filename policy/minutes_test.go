package policy

import (
	"testing"
	"time"
)

// TestMinutesSurviveALossOfRedis takes some of a key's minute, loses it in Redis, and takes the rest. A budget in memory that gets the
// same requests has to refuse the same one, for as long.
func TestMinutesSurviveALossOfRedis(t *testing.T) {
	world := newHistoryWorld(t)
	const perMinute = 10
	for name, lose := range map[string]func(h *history, admit func(n int)){
		"a flush": func(h *history, _ func(int)) {
			h.must(world.control.FlushAll(h.t.Context()).Err())
			h.setClock()
		},
		"a failover to an older copy": func(h *history, admit func(int)) {
			h.copies = h.copyRedis()
			admit(2)
			h.restoreCopy()
			h.setClock()
		},
		"an outage": func(h *history, admit func(int)) {
			h.goAway()
			admit(3)
			h.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := world.begin(t, 1)
			h.startReplicas(1)
			defer func() { h.replicas[0].Close() }()
			h.plan = generousPlan()
			h.plan.RequestsPerMinutePerKey = perMinute
			reference := NewMemoryBudget(h.clock.now)
			one := func() (refused bool) {
				t.Helper()
				_, want := reference.Admit("account", "key", h.plan)
				_, got := h.replicas[0].Admit("account", "key", h.plan)
				if !sameRefusal(got, want) {
					t.Fatalf("got %+v, want %+v", got, want)
				}
				return want != nil
			}
			h.replicas[0].Admit("account", "other", h.plan)
			admit := func(n int) {
				for range n {
					one()
				}
			}
			admit(4)
			h.advance(2 * time.Second)
			lose(h, admit)
			left := 0
			for ; !one(); left++ {
			}
			if left == 0 || left >= perMinute {
				t.Errorf("%d requests were left of the minute", left)
			}
		})
	}
}
