package policy

import (
	"testing"
	"time"
)

// After an outage that no heartbeat survives, the replica that is back first must not take itself for the only one: Redis does not have
// yet what the others have admitted.
func TestLongOutageIsSharedToItsEnd(t *testing.T) {
	for _, outage := range []time.Duration{memberLifetime / 2, memberLifetime, 3 * memberLifetime} {
		t.Run(outage.String(), func(t *testing.T) {
			h := newHistoryWorld(t).begin(t, 1)
			h.plan = generousPlan()
			h.plan.RequestsPerDay = 40
			h.startReplicas(2)
			first, second := h.replicas[0], h.replicas[1]
			defer first.Close()
			defer second.Close()
			admitted, _ := admitN(first, 10, "account", "key", h.plan)
			second.Usage("account")
			h.goAway()
			for range outage / time.Second {
				h.advance(time.Second)
				h.tickAll()
			}
			more, _ := admitN(second, 40, "account", "key", h.plan) // saved with its next tick
			h.reconnect()
			for range rejoinTicks + 1 {
				h.advance(time.Second)
				for _, r := range h.replicas {
					r.check(t.Context())
					n, _ := admitN(r, 40, "account", "key", h.plan)
					more += n
				}
			}
			if admitted += more; admitted > h.plan.RequestsPerDay {
				t.Errorf("%d requests were admitted of %d", admitted, h.plan.RequestsPerDay)
			}
		})
	}
}

// Until the others have surely counted a replica, they share without it. So it takes the share of SARA_REPLICAS, or of those alive if they are
// more.
func TestReplicaCountsAsSettledAfterAWhile(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		sends       time.Duration // heartbeats, for so long; negative: none yet
		alive, want int
	}{
		{-1, 0, 5}, {0, 1, 5}, {settleTime - 1, 2, 5}, {settleTime - 1, 7, 7}, {settleTime, 2, 2}, {settleTime, 7, 7},
	} {
		m := members{most: 5}
		if c.sends >= 0 {
			m.first, m.last, m.seen = began, began.Add(c.sends), []memberCount{{began, c.alive}}
		}
		if got := m.size(); got != c.want {
			t.Errorf("after heartbeats for %v, with %d alive, %d share, want %d", c.sends, c.alive, got, c.want)
		}
	}
}
