package schedule

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
)

// A CooldownError means that a call was not made because its site is in cooldown: the upstream has refused an earlier call for
// quota reasons.
type CooldownError struct {
	Until time.Time
	Left  time.Duration
}

// NewCooldownError returns the error of a site that is in cooldown until some time after now.
func NewCooldownError(until, now time.Time) *CooldownError {
	return &CooldownError{Until: until, Left: until.Sub(now)}
}

func (e *CooldownError) Error() string {
	return fmt.Sprintf("Search Console's quota for the site is used up until %s", e.Until.UTC().Format(time.RFC3339))
}

// KindOf returns what an error means for the calls that a job has yet to make. Stored credentials that no secret key of this
// process opens count as Misconfigured: only a restart with another key helps. Other errors that are not the upstream's, and calls
// that timed out, count as Unavailable: they may succeed later.
func KindOf(err error) upstream.Kind {
	if errors.Is(err, sqlstore.ErrNoSecretKey) || errors.Is(err, sqlstore.ErrWrongSecretKey) {
		return upstream.Misconfigured
	}
	if _, ok := errors.AsType[*CooldownError](err); ok {
		return upstream.Quota
	}
	if kind := upstream.KindOf(err); kind != upstream.Interrupted {
		return kind
	}
	return upstream.Unavailable
}

// maxCooldown is the longest cooldown that is recorded: until midnight, Pacific time, of a day that may have 25 hours.
const maxCooldown = 25 * time.Hour

// IsCooling reports whether a site is still in a cooldown that was recorded. A longer one than is ever recorded is of a clock that was ahead.
func IsCooling(until, now time.Time) bool {
	left := until.Sub(now)
	return left > 0 && left <= maxCooldown
}

// CooldownOf returns how long a site is in cooldown after an error of kind Quota.
func CooldownOf(err error) time.Duration {
	if cooldown, ok := errors.AsType[*CooldownError](err); ok {
		return cooldown.Left
	}
	if failure, ok := errors.AsType[*upstream.Error](err); ok && failure.Kind == upstream.Quota {
		return failure.RetryAfter
	}
	return 0
}

// IsConnectionLost reports whether an error means that nothing can be read through the connection until it is repaired.
func IsConnectionLost(err error) bool {
	kind := KindOf(err)
	return kind == upstream.Revoked || kind == upstream.Misconfigured
}

// JoinLine is errors.Join of two errors, on one line.
func JoinLine(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// MaxAttempts is how many consecutive attempts may fail before a job gives up.
const MaxAttempts = 4

// Backoff returns the pause before the next attempt after some failed ones: exponential, starting at base. ok is false when
// the attempts are exhausted.
func Backoff(base time.Duration, failed int) (pause time.Duration, ok bool) {
	return base << (failed - 1), failed < MaxAttempts
}

// Credentials names the credentials of a connection: those that replace them have another revision.
type Credentials struct {
	ConnectionID string
	Revision     int
}

// CredentialsOf returns the credentials that a property is read with.
func CredentialsOf(t upstream.Target) Credentials { return Credentials{t.ConnectionID, t.Revision} }

// LostConnections remembers, for one run, the connections that nothing can be read through, so that the run makes no more calls
// for their properties. A connection is no longer lost once it has new credentials. The zero value is ready to use. It is safe for
// concurrent use.
type LostConnections struct {
	mu   sync.Mutex
	lost map[Credentials]error
}

// Err returns why nothing can be read through the connection of a property; nil if it is not known to be lost.
func (l *LostConnections) Err(t upstream.Target) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[CredentialsOf(t)]
}

// Note remembers err if it means that the connection of a property is lost.
func (l *LostConnections) Note(t upstream.Target, err error) {
	if !IsConnectionLost(err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = make(map[Credentials]error)
	}
	l.lost[CredentialsOf(t)] = err
}
