package policy

import (
	"context"
	"fmt"
	"time"
)

// A Ceiling is one of the limits that a request or an upstream call can run into.
type Ceiling uint8

// The ceilings (spec: Limits 1 to 3).
const (
	KeyMinute      Ceiling = iota + 1 // requests of one key; a token bucket
	AccountHour                       // requests of an account in an hour of the clock
	AccountDay                        // requests of an account on a day, UTC
	AccountCalls                      // live upstream calls of an account on a day, UTC
	PropertyMinute                    // live upstream calls about one property; a token bucket
	AddressMinute                     // unknown keys from one client address; a token bucket
)

// Usage is what an account has used, by the counter's own clock.
type Usage struct {
	RequestsThisHour int
	RequestsToday    int
	CallsToday       int
	At               time.Time
}

// A Refusal is a ceiling that was reached.
type Refusal struct {
	Ceiling    Ceiling
	Limit      int
	RetryAfter time.Duration // until what was asked for would fit; above zero
}

// A Budget counts requests and upstream calls against the ceilings of a plan. It always decides: a shared counter that
// is out of reach is replaced, not waited for. Its methods are safe for concurrent use.
type Budget interface {
	// Admit charges one request of a key to the minute of the key and to the hour and the day of its account, or to none
	// of them. The usage includes the request if it was admitted.
	Admit(ctx context.Context, accountID, keyID string, p Plan) (Usage, *Refusal)

	// Usage returns the usage of an account, and charges nothing.
	Usage(ctx context.Context, accountID string) Usage

	// ChargeLive charges upstream calls about a property to the day of the account and to the minute of the property, all
	// of the calls to both or none to either.
	ChargeLive(ctx context.Context, accountID, propertyID string, calls int, p Plan) *Refusal
}

// denial is what the client is told of a refusal.
func (r *Refusal) denial() *Denial {
	seconds := int((r.RetryAfter + time.Second - 1) / time.Second)
	d := &Denial{Code: CodeRateLimited, Limit: r.Limit, RetryAfter: r.RetryAfter}
	switch r.Ceiling {
	case KeyMinute:
		d.Message = fmt.Sprintf("the key's %d requests a minute are used up", r.Limit)
	case AccountHour:
		d.Message = fmt.Sprintf("the account's %d requests an hour are used up", r.Limit)
	case AccountDay:
		d.Code = CodeQuotaExceeded
		d.Message = fmt.Sprintf("the account's %d requests a day are used up; the allowance resets at midnight UTC", r.Limit)
	case AccountCalls:
		d.Code = CodeQuotaExceeded
		d.Message = fmt.Sprintf("the account's %d live Search Console calls a day are used up; the allowance resets at midnight UTC", r.Limit)
	case PropertyMinute:
		d.Code = CodeUpstreamQuota
		d.Message = fmt.Sprintf("the property's %d live Search Console calls a minute are used up", r.Limit)
	case AddressMinute:
		d.Message = fmt.Sprintf("%d keys that are not known were tried from this address within a minute", r.Limit)
	}
	d.Message += fmt.Sprintf("; try again in %d seconds", seconds)
	return d
}

// bucket is a token bucket in the form of GCRA: the instant, in microseconds since 1970, at which it is full again.
type bucket int64

const minute = int64(time.Minute / time.Microsecond)

// take takes n of the limit tokens that the bucket gets back in a minute, or none and tells how long until they fit. More
// tokens than the limit never fit: they are told to wait for a full bucket.
func (b bucket) take(now int64, n, limit int) (after bucket, wait time.Duration) {
	full := max(int64(b), now) + int64(n)*minute/int64(max(limit, 1))
	if over := full - now - minute; over > 0 || limit < 1 {
		return b, time.Duration(max(over, 1)) * time.Microsecond
	}
	return bucket(full), 0
}

// window is a calendar window in UTC: the number of it since 1970.
type window int64

const (
	hourSeconds = 3600
	daySeconds  = 24 * hourSeconds
)

func hourOf(t time.Time) window { return window(t.Unix() / hourSeconds) }
func dayOf(t time.Time) window  { return window(t.Unix() / daySeconds) }

// untilNext is how long a window of so many seconds still lasts at t.
func untilNext(t time.Time, seconds int64) time.Duration {
	return time.Unix((t.Unix()/seconds+1)*seconds, 0).Sub(t)
}
