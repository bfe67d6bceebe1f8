package policy

import "time"

// A tokenBucket is a token bucket in the form of GCRA, the generic cell rate algorithm. It stores one number: the instant at
// which the bucket is full again, in microseconds since 1970. Taking a token advances that instant by the interval in which
// one token is refilled; a token is available while the instant is ahead of now by no more than the whole capacity. The zero
// value is a full bucket.
//
// The type is pure: the caller passes the time, stores the result and does the locking. Every bucket in this process is
// counted this way; admit.lua does the same arithmetic in Redis.
type tokenBucket int64

const microsPerMinute = int64(time.Minute / time.Microsecond)

// refillInterval is the number of microseconds in which a bucket of perMinute tokens gets one back.
func refillInterval(perMinute int) int64 {
	return max(1, microsPerMinute/int64(max(perMinute, 1)))
}

// take takes n tokens from a bucket that holds perMinute tokens and gets as many back in a minute. If they do not fit, it
// takes none and returns the time until they would; more tokens than the capacity never fit. The capacity is computed from
// the rounded interval, so a full bucket holds exactly perMinute tokens.
func (b tokenBucket) take(now time.Time, n, perMinute int) (after tokenBucket, wait time.Duration) {
	at, interval := now.UnixMicro(), refillInterval(perMinute)
	capacity := interval * int64(perMinute)
	// Clamp: if the clock moved back, the stored time can exceed that of a fully drained bucket.
	before := min(max(int64(b), at), at+capacity)
	full := before + int64(n)*interval
	if excess := full - at - capacity; excess > 0 {
		return tokenBucket(before), time.Duration(excess) * time.Microsecond
	}
	return tokenBucket(full), 0
}

// isFull reports whether the bucket is full, so that it need not be stored.
func (b tokenBucket) isFull(now time.Time) bool { return int64(b) <= now.UnixMicro() }
