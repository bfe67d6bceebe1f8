package policy

import (
	"testing"
	"time"
)

func TestTokenBucketTakesAllOrNothing(t *testing.T) {
	start := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	type take struct {
		after time.Duration // since the step before
		n     int
		wait  time.Duration // 0: the tokens were taken
	}
	for name, test := range map[string]struct {
		perMinute int
		takes     []take
	}{
		"a full bucket gives its capacity at once": {3, []take{{0, 3, 0}, {0, 1, 20 * time.Second}}},
		"a refused take takes nothing":             {3, []take{{0, 2, 0}, {0, 2, 20 * time.Second}, {0, 1, 0}}},
		"one token comes back per interval": {3, []take{{0, 3, 0}, {20*time.Second - time.Microsecond, 1, time.Microsecond},
			{time.Microsecond, 1, 0}, {0, 1, 20 * time.Second}}},
		"the wait is enough for all of n":       {6, []take{{0, 6, 0}, {0, 4, 40 * time.Second}, {40 * time.Second, 4, 0}}},
		"a long pause does not exceed capacity": {2, []take{{0, 2, 0}, {time.Hour, 2, 0}, {0, 1, 30 * time.Second}}},
		"more than the capacity never fits":     {2, []take{{0, 3, 30 * time.Second}, {30 * time.Second, 3, 30 * time.Second}, {0, 2, 0}}},
		"a rate of zero refuses everything":     {0, []take{{0, 1, time.Minute}}},
		"a clock set back waits one interval":   {2, []take{{0, 2, 0}, {-24 * time.Hour, 1, 30 * time.Second}, {30 * time.Second, 1, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b tokenBucket
			now := start
			for i, step := range test.takes {
				now = now.Add(step.after)
				var wait time.Duration
				if b, wait = b.take(now, step.n, test.perMinute); wait != step.wait {
					t.Errorf("step %d: wait %v, want %v", i+1, wait, step.wait)
				}
			}
		})
	}
}

func TestTokenBucketHoldsExactlyItsLimitDespiteRounding(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	for _, limit := range []int{1, 2, 7, 20, 60, 7_777, 70_000, 999_999} {
		var b tokenBucket
		taken := 0
		for {
			after, wait := b.take(now, 1, limit)
			if wait > 0 {
				break
			}
			b, taken = after, taken+1
		}
		if taken != limit {
			t.Errorf("a bucket of %d gave %d tokens", limit, taken)
		}
	}
}

// A bucket from which one token was taken is full again after the interval in which it gets one back.
func TestTokenBucketIsFull(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	for _, limit := range []int{1, 7, 60} {
		b, _ := tokenBucket(0).take(now, 1, limit)
		full := now.Add(time.Duration(refillInterval(limit)) * time.Microsecond)
		if b.isFull(now) || b.isFull(full.Add(-time.Microsecond)) || !b.isFull(full) {
			t.Errorf("limit %d: full %t at once, %t before the interval, %t after it", limit, b.isFull(now),
				b.isFull(full.Add(-time.Microsecond)), b.isFull(full))
		}
	}
}

// A slowBucket is the reference for FuzzTokenBucket: a level, and the time at which it was measured. The level counts
// microseconds of refill instead of tokens, so that it needs no fractions.
type slowBucket struct {
	missing int64 // microseconds of refill until full
	at      int64 // when missing was measured
}

func (s *slowBucket) take(at int64, n, perMinute int) (wait int64) {
	interval := microsPerMinute / int64(max(perMinute, 1))
	capacity := interval * int64(perMinute)
	if at > s.at {
		s.missing = max(0, s.missing-(at-s.at))
	} else {
		s.missing = min(s.missing+(s.at-at), capacity)
	}
	s.at = at
	s.missing = min(s.missing, capacity)
	if excess := s.missing + int64(n)*interval - capacity; excess > 0 {
		return excess
	}
	s.missing += int64(n) * interval
	return 0
}

// FuzzTokenBucket compares GCRA with a level that is drained and refilled, for a fixed rate and any sequence of takes. Each
// pair of bytes is one take: the number of tokens, and by how much the clock moves first, now and then backwards.
func FuzzTokenBucket(f *testing.F) {
	f.Add(uint16(3), []byte{1, 0, 2, 0, 1, 10, 3, 200})
	f.Add(uint16(0), []byte{1, 0, 1, 255})
	f.Add(uint16(7777), []byte{255, 1, 255, 2, 255, 3})
	f.Add(uint16(60), []byte{60, 0, 1, 129, 1, 130, 60, 127})
	f.Fuzz(func(t *testing.T, perMinute uint16, steps []byte) {
		at := int64(1_700_000_000_000_000)
		var b tokenBucket
		var slow slowBucket // the first take finds it full, whatever the time
		for ; len(steps) >= 2; steps = steps[2:] {
			n, move := int(steps[0]), int64(int8(steps[1]))
			at += move * 123_457
			after, wait := b.take(time.UnixMicro(at), n, int(perMinute))
			want := slow.take(at, n, int(perMinute))
			if wait.Microseconds() != want {
				t.Fatalf("take %d of %d a minute: wait %v, want %d µs", n, perMinute, wait, want)
			}
			if b = after; b.isFull(time.UnixMicro(at)) != (slow.missing == 0) {
				t.Fatalf("full %t with %d µs missing", b.isFull(time.UnixMicro(at)), slow.missing)
			}
		}
	})
}
