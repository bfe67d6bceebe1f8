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
