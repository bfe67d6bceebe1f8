package breaker

import (
	"errors"
	"testing"
	"time"
)

const pause = 10 * time.Second

// breakerTest is a breaker with a clock.
type breakerTest struct {
	*Breaker
	now     time.Time
	changes []error
}

func newBreakerTest(threshold int) *breakerTest {
	b := &breakerTest{now: time.Unix(1_700_000_000, 0)}
	b.Breaker = &Breaker{Threshold: threshold, Pause: pause, Now: func() time.Time { return b.now },
		OnChange: func(failure error) { b.changes = append(b.changes, failure) }}
	return b
}

// want checks how long the next call has to wait; a call that is admitted begins.
func (b *breakerTest) want(t *testing.T, wait time.Duration) {
	t.Helper()
	if got := b.Admit(); got != wait {
		t.Errorf("the next call waits %v, want %v", got, wait)
	}
}

var errDown = errors.New("down")

func TestOpensAfterFailuresInARow(t *testing.T) {
	b := newBreakerTest(2)
	b.Failed(errDown)
	b.Succeeded()
	b.Failed(errDown)
	b.Inconclusive()
	b.want(t, 0)
	if len(b.changes) != 0 || b.Failure() != nil {
		t.Errorf("it is open after one failure: %v", b.Failure())
	}
	b.Failed(errDown)
	b.want(t, pause)
	b.now = b.now.Add(pause / 2)
	b.want(t, pause/2)
	if len(b.changes) != 1 || b.changes[0] != errDown || b.Failure() != errDown {
		t.Errorf("changes: %v, failure: %v", b.changes, b.Failure())
	}
	b.now = b.now.Add(-time.Hour)
	b.want(t, 0) // the clock was set back
}

func TestAdmitsOneProbeInEachPause(t *testing.T) {
	b := newBreakerTest(1)
	b.Failed(errDown)
	for range 3 {
		b.now = b.now.Add(pause)
		b.want(t, 0)
		b.want(t, pause)
		b.Failed(errDown)
		b.want(t, pause)
	}
	b.now = b.now.Add(pause)
	b.want(t, 0)
	b.Succeeded()
	b.want(t, 0)
	if len(b.changes) != 2 || b.changes[1] != nil || b.Failure() != nil {
		t.Errorf("changes: %v, failure: %v", b.changes, b.Failure())
	}
}

func TestAnInconclusiveProbeIsFollowedByAnother(t *testing.T) {
	b := newBreakerTest(1)
	b.Failed(errDown)
	b.Inconclusive() // not of a probe
	b.want(t, pause)
	b.now = b.now.Add(pause)
	b.want(t, 0)
	b.Inconclusive()
	b.want(t, 0)
	b.want(t, pause)
}

// The failures of calls that began before the breaker opened do not keep it open, but the success of one shows that it can close.
func TestCallsFromBeforeItOpenedOnlyCloseIt(t *testing.T) {
	b := newBreakerTest(1)
	b.Failed(errDown)
	b.now = b.now.Add(pause / 2)
	b.Failed(errDown)
	b.want(t, pause/2)
	b.Succeeded()
	b.want(t, 0)
}
