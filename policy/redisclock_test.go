package policy

import (
	"context"
	"errors"
	"testing"
	"time"
	"unsafe"

	"sara/policy/redistest"
)

func TestRedisClockIsSetByReplies(t *testing.T) {
	here := noon()
	clock := newRedisClock(here.now)
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

// A wall clock that is set forward does not move the estimate.
func TestRedisClockIsSteady(t *testing.T) {
	now := time.Now()
	clock := newRedisClock(func() time.Time { return now })
	redis := now.Add(time.Minute)
	if _, _, err := clock.read([]int64{redis.Unix(), 0, 7}, now); err != nil {
		t.Fatal(err)
	}
	before := clock.time()
	setWallClock(&now, 24*time.Hour)
	if drift := clock.time().Round(0).Sub(before.Round(0)); drift != 0 {
		t.Errorf("the estimate has moved by %v", drift)
	}
}

// setWallClock adds whole seconds to the wall clock's part of a time that also has a monotonic reading, as setting the system clock does.
func setWallClock(t *time.Time, step time.Duration) {
	const secondsShift = 30 // the first word of a Time has nanoseconds below its seconds
	*(*uint64)(unsafe.Pointer(t)) += uint64(step/time.Second) << secondsShift
}

func TestChargesExpireBeforeTheirCallersDeadline(t *testing.T) {
	here := noon()
	clock := newRedisClock(here.now)
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
