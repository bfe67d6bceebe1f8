package policy

import (
	"cmp"
	"fmt"
	"time"
)

// A Ceiling names one of the limits that a request or an upstream call can exceed.
type Ceiling uint8

// The ceilings (spec: Limits 1 to 3).
const (
	KeyMinute      Ceiling = iota + 1 // requests per minute and key; a token bucket
	AccountHour                       // requests per account and calendar hour
	AccountDay                        // requests per account and UTC day
	AccountCalls                      // live upstream calls per account and UTC day
	PropertyMinute                    // live upstream calls per minute and property; a token bucket
	AddressMinute                     // keys per minute and client address that are unknown, or not for the address; a token bucket
	MessageMinute                     // messages of a key that are charged to nothing, per minute; a token bucket
)

// Usage is what an account has used of its hour and day, by the counter's own clock.
type Usage struct {
	RequestsThisHour int
	RequestsToday    int
	CallsToday       int
	At               time.Time
}

// A Refusal names the ceiling that a request or call would exceed.
type Refusal struct {
	Ceiling    Ceiling
	Limit      int           // of the plan
	RetryAfter time.Duration // until the same request would fit, or is worth another try; above zero

	// ByShare means that Limit is not known to be used up, but only this replica's Share of what was left of it when it lost
	// the shared counters.
	ByShare bool
	Share   int

	byLeases bool // the request would fit if other replicas had not leased some of the limit
}

// A Budget counts requests and upstream calls against the ceilings of a plan. It always decides, and returns no error: an
// implementation whose shared counter is unreachable has to fall back on something else. Its methods take no context: each
// bounds its own wait, and what is counted stays counted if the caller leaves. They are safe for concurrent use.
type Budget interface {
	// Admit charges one request of a key to the key's minute and to its account's hour and day: to all three or, when it
	// refuses, to none. The usage includes the request if it was admitted.
	Admit(accountID, keyID string, p Plan) (Usage, *Refusal)

	// ChargeMinute charges one request of a key to the key's minute only, for an answer that no allowance covers: an unknown
	// path, a wrong method, no access. A plan without a minute has uncoveredPerMinute. The usage does not include the request.
	ChargeMinute(accountID, keyID string, p Plan) (Usage, *Refusal)

	// Usage returns the usage of an account without charging anything.
	Usage(accountID string) Usage

	// ChargeLiveCalls charges upstream calls about a property to the account's day and to the property's minute: all of the
	// calls to both or none to either.
	ChargeLiveCalls(accountID, propertyID string, calls int, p Plan) *Refusal

	// RefundLiveCalls returns to an account calls that were charged but not made; calls is positive. Charged is a time on the
	// day that was charged, by the counter's own clock as in Usage.At: a refund for a past day is dropped. No count goes below
	// zero. The property's minute gets no refund, since it refills soon anyway.
	RefundLiveCalls(accountID string, calls int, charged time.Time)
}

// uncoveredPerMinute is the minute of a key whose plan names none, such as a plan without access.
const uncoveredPerMinute = 60

// unlimited as a limit turns off its ceiling, and its counting.
const unlimited = -1

// minuteOnly returns a plan with no limit but the key's minute, for ChargeMinute.
func (p *Plan) minuteOnly() Plan {
	return Plan{RequestsPerMinutePerKey: cmp.Or(p.RequestsPerMinutePerKey, uncoveredPerMinute),
		RequestsPerHour: unlimited, RequestsPerDay: unlimited}
}

// limit returns the plan's limit for a ceiling.
func (p *Plan) limit(c Ceiling) int {
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

// An hour is a calendar hour in UTC, numbered since 1970. A day is 24 of them.
type hour int64

func hourOf(t time.Time) hour { return hour(t.Unix() / 3600) }

func (h hour) day() int64          { return int64(h) / 24 }
func (h hour) end() time.Time      { return time.Unix((int64(h)+1)*3600, 0) }
func (h hour) endOfDay() time.Time { return time.Unix((h.day()+1)*86400, 0) }

// A UsageCount is what an account used in one calendar hour and one calendar day, in UTC.
type UsageCount struct {
	AccountID string
	Hour, Day int64 // numbered since 1970
	InHour    int   // requests in Hour
	InDay     int   // requests on Day
	Calls     int   // live upstream calls on Day, without those that were returned
	Returned  int   // calls that were charged and returned on Day
}

// refundCount is the (negative) count that a refund adds to the hour and the day that were charged.
func refundCount(accountID string, calls int, charged time.Time) UsageCount {
	h := hourOf(charged)
	return UsageCount{AccountID: accountID, Hour: int64(h), Day: h.day(), Calls: -calls, Returned: calls}
}

// advanceTo resets the windows that ended before h. It never goes back to an earlier window, which would grant that window's
// allowance a second time.
func (c *UsageCount) advanceTo(h hour) {
	if int64(h) > c.Hour {
		c.Hour, c.InHour = int64(h), 0
	}
	if h.day() > c.Day {
		c.Day, c.InDay, c.Calls, c.Returned = h.day(), 0, 0, 0
	}
}

// goBackTo makes a count that is ahead of h one of h, and one that is ahead by more than a day one of its day, as account.lua does.
func (c *UsageCount) goBackTo(h hour) {
	c.Hour = min(c.Hour, int64(h))
	if c.Day > h.day()+1 {
		c.Day = h.day()
	}
}

// minus returns what was used after an earlier count of the same account.
func (c UsageCount) minus(earlier UsageCount) UsageCount {
	earlier.advanceTo(hour(c.Hour))
	c.InHour -= earlier.InHour
	c.InDay -= earlier.InDay
	c.Calls -= earlier.Calls
	c.Returned -= earlier.Returned
	return c
}

// add adds the parts of other that belong to the same hour or the same day.
func (c *UsageCount) add(other UsageCount) {
	if other.Hour == c.Hour {
		c.InHour += other.InHour
	}
	if other.Day == c.Day {
		c.InDay += other.InDay
		c.Calls += other.Calls
		c.Returned += other.Returned
	}
}

// charged is how many calls were charged, with those that were returned later. Like Returned and unlike Calls it only grows.
func (c *UsageCount) charged() int { return c.Calls + c.Returned }

// raise raises each number to that of other, if that is higher and belongs to the same hour or day.
func (c *UsageCount) raise(other UsageCount) {
	if other.Hour == c.Hour {
		c.InHour = max(c.InHour, other.InHour)
	}
	if other.Day == c.Day {
		charged := max(c.charged(), other.charged())
		c.InDay, c.Returned = max(c.InDay, other.InDay), max(c.Returned, other.Returned)
		c.Calls = charged - c.Returned
	}
}

// lower lowers the requests to those of other, if these are fewer.
func (c *UsageCount) lower(other UsageCount) {
	c.InHour, c.InDay = min(c.InHour, max(0, other.InHour)), min(c.InDay, max(0, other.InDay))
}

func (c *UsageCount) usage(at time.Time) Usage {
	return Usage{RequestsThisHour: c.InHour, RequestsToday: c.InDay, CallsToday: c.Calls, At: at}
}

// The codes of a Denial (spec: Errors).
const (
	CodeInvalidKey        = "INVALID_API_KEY"
	CodeRevokedKey        = "API_KEY_REVOKED"
	CodeExpiredKey        = "API_KEY_EXPIRED"
	CodeAddress           = "ADDRESS_NOT_ALLOWED"
	CodeNoAccess          = "API_ACCESS_REQUIRED"
	CodeScope             = "INSUFFICIENT_SCOPE"
	CodeNotFound          = "NOT_FOUND"
	CodePropertyAmbiguous = "PROPERTY_AMBIGUOUS"
	CodeRateLimited       = "RATE_LIMITED"
	CodeQuotaExceeded     = "QUOTA_EXCEEDED"
	CodeUpstreamQuota     = "UPSTREAM_QUOTA_EXCEEDED"
)

// A Denial is a decision against a request. Code and Message are written for the client.
type Denial struct {
	Code       string
	Message    string
	Limit      int           // the limit that was reached; 0 if the denial is not about a limit
	RetryAfter time.Duration // how long to wait, if a limit was reached
}

func (d *Denial) Error() string { return d.Message }

func deny(code, format string, args ...any) *Denial {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	return &Denial{Code: code, Message: message}
}
