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

// A Denial is a decision against a request. Code and Message are written for the client.
type Denial struct {
	Code       string
	Message    string
	Limit      int           // the limit that was reached; 0 if the denial is not about a limit
	RetryAfter time.Duration // how long to wait, if a limit was reached
}

func (d *Denial) Error() string { return d.Message }

func deny(code, format string, args ...any) *Denial {
	return &Denial{Code: code, Message: fmt.Sprintf(format, args...)}
}
