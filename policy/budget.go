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

	// ChargeLiveCalls charges upstream calls about a property to the day of the account and to the minute of the property, all
	// of the calls to both or none to either.
	ChargeLiveCalls(ctx context.Context, accountID, propertyID string, calls int, p Plan) *Refusal

	// RefundLiveCalls gives back to an account calls, more than none, that were charged to it and not made. Charged is a moment of
	// the day that they were charged to, by the counter's own clock, as Usage has it: a day that is over is left alone. No
	// count goes below zero. The minute of the property gets nothing back; it is full again soon enough.
	RefundLiveCalls(ctx context.Context, accountID string, calls int, charged time.Time)
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

// ceiling returns how high a ceiling of the plan is.
func (p *Plan) ceiling(c Ceiling) int {
	switch c {
	case KeyMinute:
		return p.RequestsPerMinutePerKey
	case AccountHour:
		return p.RequestsPerHour
	case AccountDay:
		return p.RequestsPerDay
	case AccountCalls:
		return p.SearchConsoleCallsPerDay
	case PropertyMinute:
		return p.LiveCallsPerMinutePerProperty
	}
	return 0
}

// bucket is a token bucket in the form of GCRA: the instant, in microseconds since 1970, at which it is full again.
type bucket int64

const minute = int64(time.Minute / time.Microsecond)

// take takes n of the limit tokens that the bucket gets back in a minute, or none and tells how long until they fit. More
// tokens than the limit never fit. A full bucket holds exactly the limit, whatever is lost in rounding the interval.
func (b bucket) take(now int64, n, limit int) (after bucket, wait time.Duration) {
	interval := max(1, minute/int64(max(limit, 1)))
	capacity := interval * int64(limit)
	// No bucket is emptier than empty, which one of the future seems to be when the clock was set back.
	before := min(max(int64(b), now), now+capacity)
	full := before + int64(n)*interval
	if over := full - now - capacity; over > 0 {
		return bucket(before), time.Duration(over) * time.Microsecond
	}
	return bucket(full), 0
}

// An hour is a calendar hour in UTC: the number of it since 1970. Days are whole numbers of them.
type hour int64

func hourOf(t time.Time) hour { return hour(t.Unix() / 3600) }

func (h hour) day() int64 { return int64(h) / 24 }

// end is when the hour ends, and endOfDay when its day does.
func (h hour) end() time.Time      { return time.Unix((int64(h)+1)*3600, 0) }
func (h hour) endOfDay() time.Time { return time.Unix((h.day()+1)*86400, 0) }

// A Count is what an account used in one hour and one day.
type UsageCount struct {
	AccountID string
	Hour, Day int64 // since 1970, UTC
	InHour    int   // requests in the hour
	InDay     int   // requests on the day
	Calls     int   // upstream calls on the day
}

// returned is what giving back calls adds to the count of the hour and the day that they were charged in.
func returned(accountID string, calls int, charged time.Time) UsageCount {
	h := hourOf(charged)
	return UsageCount{AccountID: accountID, Hour: int64(h), Day: h.day(), Calls: -calls}
}

// moveTo moves the count on: an hour or a day that is over by h counts no more. It never moves back, since that would give
// out again what was used.
func (c *UsageCount) moveTo(h hour) {
	if int64(h) > c.Hour {
		c.Hour, c.InHour = int64(h), 0
	}
	if h.day() > c.Day {
		c.Day, c.InDay, c.Calls = h.day(), 0, 0
	}
}

// since returns what was used after an earlier count of the same account.
func (c UsageCount) since(earlier UsageCount) UsageCount {
	earlier.moveTo(hour(c.Hour))
	c.InHour -= earlier.InHour
	c.InDay -= earlier.InDay
	c.Calls -= earlier.Calls
	return c
}

// add adds what other used in the same hour and the same day.
func (c *UsageCount) add(other UsageCount) {
	if other.Hour == c.Hour {
		c.InHour += other.InHour
	}
	if other.Day == c.Day {
		c.InDay += other.InDay
		c.Calls += other.Calls
	}
}

func (c *UsageCount) usage(at time.Time) Usage {
	return Usage{RequestsThisHour: c.InHour, RequestsToday: c.InDay, CallsToday: c.Calls, At: at}
}
