package policy

import (
	"context"
	"errors"
	"testing"
	"time"

	"sara/policy/redistest"
)

func TestRedisClockIsSetByReplies(t *testing.T) {
	here := noon()
	clock := &redisClock{now: here.now}
	sent := here.now()
	theirs := sent.Add(10 * time.Minute)
	here.advance(time.Millisecond) // the way back of the reply
	now, remaining, err := clock.read([]int64{theirs.Unix(), 250, 7}, sent)
	if err != nil || !now.Equal(theirs.Add(250*time.Microsecond)) || len(remaining) != 1 || remaining[0] != 7 {
		t.Errorf("read %v, %v, %v", now, remaining, err)
	}
	if early := theirs.Sub(clock.time()); early > 0 || early < -2*time.Millisecond {
		t.Errorf("the clock shows %v, %v behind Redis", clock.time(), early)
	}
	if _, _, err := clock.read([]int64{theirs.Unix(), 0}, sent); !errors.Is(err, errExpired) {
		t.Errorf("only the time: %v, want errExpired", err)
	}
	if _, _, err := clock.read([]int64{1}, sent); err == nil || errors.Is(err, errExpired) {
		t.Errorf("an incomplete time: %v", err)
	}
}

func TestChargesExpireBeforeTheirCallersDeadline(t *testing.T) {
	here := noon()
	clock := &redisClock{now: here.now}
	f := func(left time.Duration, earliest, latest time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		expires := time.UnixMicro(clock.deadline(ctx)).Sub(here.now())
		if expires < earliest || expires > latest {
			t.Errorf("with %v left, it expires after %v", left, expires)
		}
	}
	f(time.Hour, 59*time.Minute, time.Hour-expiryMargin)
	f(expiryMargin, -time.Minute, 0) // the caller no longer waits: expired from the start
}

func TestExpiredChargesAreNotMade(t *testing.T) {
	avoidHourEnd(t)
	s := startRedisBudget(t, redistest.Single(t).URL(), redisOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), expiryMargin)
	defer cancel()
	if _, _, err := s.charge(ctx, UsageCount{AccountID: "a", Calls: 2}, nil); !errors.Is(err, errExpired) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an expired charge returned %v", err)
	}
	if usage := s.Usage("a"); usage.CallsToday != 0 {
		t.Errorf("usage %+v after an expired charge", usage)
	}
}
