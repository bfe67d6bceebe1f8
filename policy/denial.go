package policy

import (
	"fmt"
	"time"
)

// The codes of a Denial (spec: Errors).
const (
	CodeInvalidKey        = "INVALID_API_KEY"
	CodeRevokedKey        = "API_KEY_REVOKED"
	CodeExpiredKey        = "API_KEY_EXPIRED"
	CodeNoAccess          = "API_ACCESS_REQUIRED"
	CodeScope             = "INSUFFICIENT_SCOPE"
	CodeNotFound          = "NOT_FOUND"
	CodePropertyAmbiguous = "PROPERTY_AMBIGUOUS"
	CodeRateLimited       = "RATE_LIMITED"
	CodeQuotaExceeded     = "QUOTA_EXCEEDED"
	CodeUpstreamQuota     = "UPSTREAM_QUOTA_EXCEEDED"
)

// A Denial is a decision against a request. It is an answer, not a failure.
type Denial struct {
	Code       string
	Message    string
	Limit      int           // of a ceiling that was reached: how high it is; 0 for every other denial
	RetryAfter time.Duration // likewise: how long to wait
}

func (d *Denial) Error() string { return d.Message }

func deny(code, format string, args ...any) *Denial {
	return &Denial{Code: code, Message: fmt.Sprintf(format, args...)}
}
