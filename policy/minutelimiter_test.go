package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// What the limiter forgets makes no difference: it decides like one that keeps every bucket.
func TestMinuteLimiterEqualsBuckets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random, now := rand.New(rand.NewPCG(seed, 0)), time.Unix(1_800_000_000, 0)
		l := newMinuteLimiter(func() time.Time { return now }, AddressMinute, maxUnknownKeys)
		buckets := map[string]tokenBucket{}
		refused := 0
		for step := range 5_000 {
			name := fmt.Sprint(random.IntN(20))
			now = now.Add(time.Duration(random.Int64N(int64(3 * time.Second))))
			for range random.IntN(maxUnknownKeys) {
				bucket, wait := buckets[name].take(now, 1, maxUnknownKeys)
				buckets[name] = bucket
				if got := l.isExhausted(name); got != (wait > 0) {
					t.Fatalf("seed %d, step %d: exhausted: %v", seed, step, got)
				}
				switch refusal := l.count(name, 1); {
				case (refusal != nil) != (wait > 0), refusal != nil && refusal.RetryAfter != wait:
					t.Fatalf("seed %d, step %d: %+v, want to wait for %v", seed, step, refusal, wait)
				case refusal != nil:
					refused++
				}
			}
		}
		if refused == 0 {
			t.Errorf("seed %d: nothing was refused", seed)
		}
	}
}

func TestMinuteLimiterIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := newMinuteLimiter(func() time.Time { return now }, AddressMinute, maxUnknownKeys)
	for range maxUnknownKeys {
		_ = l.count("guesser", 1)
	}
	for n := range 3 * maxRecentNames {
		if n == maxRecentNames && !l.isExhausted("guesser") {
			t.Errorf("a network was forgotten among %d", maxRecentNames)
		}
		_ = l.count(fmt.Sprint(n), 1)
		if kept := len(l.recent) + len(l.former); kept > 2*maxRecentNames {
			t.Fatalf("%d buckets are kept", kept)
		}
	}
}
