package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"sara/policy/redisconn"
)

// ChargeLiveCalls implements Budget. In a cluster the account and the property may be on different servers, so it takes two
// round trips: the account first, with a refund if the property refuses. The other order would let an account that has used
// up its day drain the property's minute for others.
func (b *RedisBudget) ChargeLiveCalls(accountID, propertyID string, calls int, p Plan) *Refusal {
	b.chargeSlots <- struct{}{}
	defer func() { <-b.chargeSlots }()
	if b.degraded.Load() {
		return b.fallback.ChargeLiveCalls(accountID, propertyID, calls, p)
	}
	begun, of := b.config.Now(), refusalKey{PropertyMinute, propertyID}
	if _, refusal := b.cachedRefusal(begun, of, calls, &p); refusal != nil {
		return refusal
	}
	refusal, err := b.chargeBoth(accountID, propertyID, calls, &p)
	switch {
	case err != nil:
		b.redisDown(err)
		return b.fallback.ChargeLiveCalls(accountID, propertyID, calls, p)
	case refusal != nil && refusal.Ceiling == PropertyMinute:
		// A refusal of the account is not cached: a refund can end it early.
		b.cacheRefusal(begun, of, calls, Usage{}, *refusal)
	}
	return refusal
}

func (b *RedisBudget) chargeBoth(accountID, propertyID string, calls int, p *Plan) (*Refusal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	now, wait, err := b.charge(ctx, UsageCount{AccountID: accountID, Calls: calls}, p)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return &Refusal{Ceiling: AccountCalls, Limit: p.SearchConsoleCallsPerDay, RetryAfter: wait}, nil
	}
	limit := p.LiveCallsPerMinutePerProperty
	wait, err = b.takeLiveCalls(ctx, propertyID, calls, limit)
	if err == nil && wait == 0 {
		return nil, nil
	}
	// No call will be made, so the account gets a refund.
	back := refundCount(accountID, calls, now)
	if err != nil {
		b.fallback.add(back)
	} else {
		err = b.refund(ctx, back)
	}
	if err != nil {
		return nil, fmt.Errorf("charge the live calls of a property: %w", err)
	}
	return &Refusal{Ceiling: PropertyMinute, Limit: limit, RetryAfter: wait}, nil
}

// RefundLiveCalls implements Budget. While Redis is down, the refund goes to this replica's share, and to Redis later.
func (b *RedisBudget) RefundLiveCalls(accountID string, calls int, charged time.Time) {
	b.chargeSlots <- struct{}{}
	defer func() { <-b.chargeSlots }()
	back := refundCount(accountID, calls, charged)
	if b.degraded.Load() {
		b.fallback.add(back)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	if err := b.refund(ctx, back); err != nil {
		b.redisDown(err)
	}
}

// refund returns calls in Redis. If that fails, it returns them locally, and sync does so in Redis. ctx has a deadline.
func (b *RedisBudget) refund(ctx context.Context, back UsageCount) error {
	_, _, err := b.charge(ctx, back, nil)
	if err != nil {
		b.fallback.add(back)
	}
	return err
}

// charge changes the calls of an account's day. If they would exceed the limit of the plan, if there is one, it returns the time
// until they would fit. A count without a day changes the current one. ctx has a deadline.
func (b *RedisBudget) charge(ctx context.Context, c UsageCount, p *Plan) (now time.Time, wait time.Duration, err error) {
	// After a restore, Redis is compared with no more than it was given: what was charged locally since would look like another loss.
	charged, returned := b.fallback.callMarks(c.AccountID)
	// Again with a clock that the first reply has set, after memory was freed, or after lost calls were restored.
	for range maxAttempts {
		now, wait, err = b.tryCharge(ctx, c, p, charged, returned)
		switch {
		case errors.Is(err, errBehind):
			if err := b.restore(ctx, b.fallback.ledger(c.AccountID)); err != nil {
				return time.Time{}, 0, err
			}
		case redisconn.IsFull(err):
			b.config.Relieve(ctx)
		case !errors.Is(err, errExpired):
			return now, wait, err
		}
	}
	return time.Time{}, 0, err
}

// tryCharge is one attempt of charge. Its error is errBehind if Redis has fewer calls of this replica than it should have charged and
// returned: nothing is charged then.
func (b *RedisBudget) tryCharge(ctx context.Context, c UsageCount, p *Plan, charged, returned int64) (now time.Time, wait time.Duration, err error) {
	limit := unlimited
	if p != nil {
		limit = p.SearchConsoleCallsPerDay
	}
	sent := b.clock.now()
	numbers, err := b.chargeScript.Run(ctx, b.scripts, []string{accountKey(c.AccountID)},
		b.clock.deadline(ctx), b.replica, charged, returned, limit, c.Calls, c.Day).Int64Slice()
	if err == nil {
		now, numbers, err = b.clock.read(numbers, sent)
	}
	switch {
	case err != nil:
		return time.Time{}, 0, fmt.Errorf("charge in Redis: %w", err)
	case numbers[0] < 0:
		return time.Time{}, 0, errBehind
	case c.Calls != 0:
		b.fallback.charged(c.AccountID, now, int(numbers[1]), int(numbers[2]), p)
	}
	return now, time.Duration(numbers[0]) * time.Microsecond, nil
}

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

// drain replaces a bucket with one from which everything was just taken, and tries to take calls from that.
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
// that of a full bucket. A script also fails where Redis refuses writes, such as when its memory is full; the bucket is intact then.
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
