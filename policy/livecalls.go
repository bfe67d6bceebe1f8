package policy

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
)

// liveKey names the token bucket of a property's live calls; redis_rate adds a prefix.
func liveKey(propertyID string) string { return "sara:live:" + propertyID }

// takeLiveCalls takes calls from the minute of a property, all or none. It returns how long to wait until they fit, and zero if they
// were taken. A damaged bucket is a drained one.
func (b *RedisBudget) takeLiveCalls(ctx context.Context, propertyID string, calls, limit int) (wait time.Duration, err error) {
	key, bucket := liveKey(propertyID), redis_rate.PerMinute(max(1, limit))
	result, err := b.propertyLimiter.AllowN(ctx, key, bucket, calls)
	if isDamaged(result, err) {
		result, err = b.drain(ctx, key, bucket, calls)
	}
	switch {
	case err != nil:
		return 0, err
	case result.Allowed == calls && limit > 0:
		return 0, nil
	}
	return max(result.RetryAfter, time.Millisecond), nil
}

// drain replaces a bucket by one from which all was just taken, and tries to take calls from that.
func (b *RedisBudget) drain(ctx context.Context, key string, bucket redis_rate.Limit, calls int) (*redis_rate.Result, error) {
	err := b.propertyLimiter.Reset(ctx, key)
	if err == nil {
		_, err = b.propertyLimiter.AllowN(ctx, key, bucket, bucket.Burst)
	}
	if err != nil {
		return nil, err
	}
	return b.propertyLimiter.AllowN(ctx, key, bucket, calls)
}

// isDamaged reports whether what redis_rate found is not the time when a bucket is full again, which is a minute ahead at most. The
// script of redis_rate does not check it: it fails on text and on other types, and allows everything for nan. A time in the past is
// that of a full bucket. A script also fails where Redis refuses writes, such as when its memory is full: that says nothing of a bucket.
func isDamaged(result *redis_rate.Result, err error) bool {
	if err != nil {
		_, notNumber := errors.AsType[*strconv.NumError](err)
		text := err.Error()
		failed := strings.HasPrefix(text, "ERR ") || strings.HasPrefix(text, "WRONGTYPE ")
		return notNumber || failed && strings.Contains(text, "user_script") // as Redis names the place of the failure
	}
	const drift = time.Second // of the clock of another master
	return result.ResetAfter < 0 || result.ResetAfter > time.Minute+drift
}
