package policy

import (
	"context"
	"errors"
	"testing"
	"time"

	"sara/policy/redistest"
)

func TestTheClockOfRedisIsKnownFromItsAnswers(t *testing.T) {
	here := noon()
	clock := &redisClock{now: here.now}
	asked := here.now()
	theirs := asked.Add(10 * time.Minute)
	here.advance(time.Millisecond) // the way of the answer
	now, rest, err := clock.read([]int64{theirs.Unix(), 250, 7}, asked)
	if err != nil || !now.Equal(theirs.Add(250*time.Microsecond)) || len(rest) != 1 || rest[0] != 7 {
		t.Errorf("read %v, %v, %v", now, rest, err)
	}
	if early := theirs.Sub(clock.time()); early > 0 || early < -2*time.Millisecond {
		t.Errorf("the clock shows %v, %v before Redis", clock.time(), early)
	}
	if _, _, err := clock.read([]int64{theirs.Unix(), 0}, asked); !errors.Is(err, errExpired) {
		t.Errorf("the time alone: %v, want errLate", err)
	}
	if _, _, err := clock.read([]int64{1}, asked); err == nil || errors.Is(err, errExpired) {
		t.Errorf("not even the time: %v", err)
	}
}

func TestAQuestionIsVoidBeforeNobodyWaitsForIt(t *testing.T) {
	here := noon()
	clock := &redisClock{now: here.now}
	f := func(left time.Duration, earliest, latest time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		void := time.UnixMicro(clock.deadline(ctx)).Sub(here.now())
		if void < earliest || void > latest {
			t.Errorf("with %v left it is void after %v", left, void)
		}
	}
	f(time.Hour, 59*time.Minute, time.Hour-expiryMargin)
	f(expiryMargin, -time.Minute, 0) // what is asked too late to be waited for is void from the beginning
}

func TestChargesThatCameTooLateAreNotCarriedOut(t *testing.T) {
	awayFromTheHour(t)
	s := startShared(t, redistest.Single(t).URL(), sharedOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), expiryMargin)
	defer cancel()
	if _, _, err := s.charge(ctx, UsageCount{AccountID: "a", Calls: 2}, unlimited); !errors.Is(err, errExpired) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("charged with %v", err)
	}
	if usage := s.Usage(t.Context(), "a"); usage.CallsToday != 0 {
		t.Errorf("charged %+v", usage)
	}
}
