package policy

import (
	"fmt"
	"testing"
	"time"
)

// A replica has used a part of a lease when it is cut off, and goes on without Redis. Redis counts the lease as used when it lapses. So
// that part counts once, whether the replica reports it itself or another one brings it from the store, before the lease lapses or after.
func TestALeaseOfAReplicaThatIsCutOffCountsOnce(t *testing.T) {
	t.Parallel()
	for _, lapsed := range []bool{false, true} {
		for _, byAnother := range []bool{false, true} {
			t.Run(fmt.Sprintf("lapsed: %t, by another: %t", lapsed, byAnother), func(t *testing.T) {
				w := newLeaseWorld(t, 2)
				isCut, other := w.replicas[0], w.replicas[1]
				w.together(isCut, "key", 10)
				_, leased := w.counted()
				for range 5 {
					isCut.fallback.take("account", "key", &w.plan)
				}
				isCut.cut.Store(true)
				isCut.redisDown(errRedisDown)
				admitN(isCut, 3, "account", "key", w.plan)
				isCut.check(t.Context())
				if lapsed {
					w.advance(time.Second + time.Millisecond)
					w.together(other, "other", 1)
				} else {
					w.advance(100 * time.Millisecond)
				}
				if byAnother {
					other.shares.pending = true
					other.check(t.Context())
				}
				isCut.cut.Store(false)
				isCut.check(t.Context())
				if !lapsed {
					w.wantCounted(10+5+3, leased-5)
					w.advance(time.Second)
					w.together(other, "other", 1)
				}
				w.wantCounted(10+leased+3+1, 0)
			})
		}
	}
}
