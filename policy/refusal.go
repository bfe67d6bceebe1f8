package policy

import (
	"fmt"
	"strconv"
	"time"

	"sara/policy/lru"
)

// refusalTexts keeps the messages of refusals: refused clients often do not stop.
type refusalTexts struct {
	*lru.Cache[refusalText, string]
}

// maxTexts bounds the messages that are kept, of some 100 bytes each.
const maxTexts = 1 << 10

func newRefusalTexts() refusalTexts {
	return refusalTexts{lru.New[refusalText](lru.Config[string]{Weight: maxTexts})}
}

// denial is a refusal as the client reads it.
func (t refusalTexts) denial(r *Refusal) *Denial {
	text := refusalText{r.Ceiling, r.Limit, r.ByShare, r.Share, wholeSeconds(r.RetryAfter)}
	message, ok := t.Get(text)
	if !ok {
		message = text.message()
		t.Put(text, message)
	}
	return &Denial{Code: r.code(), Message: message, Limit: r.Limit, RetryAfter: r.RetryAfter}
}

// code is the code of the client's error.
func (r *Refusal) code() string {
	switch r.Ceiling {
	case AccountDay, AccountCalls:
		return CodeQuotaExceeded
	case PropertyMinute:
		return CodeUpstreamQuota
	}
	return CodeRateLimited
}

// A refusalText is what the message of a refusal depends on.
type refusalText struct {
	ceiling    Ceiling
	limit      int
	byShare    bool
	share      int
	retryAfter int // seconds
}

// message writes a refusal for the client.
func (r *refusalText) message() string {
	limit, resets := "", ""
	switch r.ceiling {
	case KeyMinute:
		limit = "the key's " + counted(r.limit, "request") + " a minute"
	case AccountHour:
		limit = "the account's " + counted(r.limit, "request") + " an hour"
	case AccountDay:
		limit, resets = "the account's "+counted(r.limit, "request")+" a day", "; the allowance resets at midnight UTC"
	case AccountCalls:
		limit = "the account's " + counted(r.limit, "live Search Console call") + " a day"
		resets = "; the allowance resets at midnight UTC"
	case PropertyMinute:
		limit = "the property's " + counted(r.limit, "live Search Console call") + " a minute"
	case MessageMinute:
		limit = "the key's " + counted(r.limit, "message") + " a minute"
	}
	message := limit + " are used up" + resets
	switch {
	case r.byShare:
		message = fmt.Sprintf("this replica's share of %s, %d, is used up: the counters that replicas share are unavailable", limit, r.share)
	case r.ceiling == AddressMinute:
		message = fmt.Sprintf("%d keys that are unknown, or not for this address, were tried from it within a minute", r.limit)
	case r.limit == 1:
		message = limit + " is used up" + resets
	}
	return message + "; " + tryAgainIn(r.retryAfter)
}

// TryAgainIn writes a wait for a client: "try again in 2 seconds", rounded up.
func TryAgainIn(wait time.Duration) string { return tryAgainIn(wholeSeconds(wait)) }

func tryAgainIn(seconds int) string { return "try again in " + counted(seconds, "second") }

func wholeSeconds(wait time.Duration) int { return int((wait + time.Second - 1) / time.Second) }

// counted writes a number of things, such as "1 request" and "2 requests".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
