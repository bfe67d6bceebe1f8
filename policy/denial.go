package policy

import "fmt"

// The codes of a Denial (spec: Errors).
const (
	CodeInvalidKey        = "INVALID_API_KEY"
	CodeRevokedKey        = "API_KEY_REVOKED"
	CodeExpiredKey        = "API_KEY_EXPIRED"
	CodeNoAccess          = "API_ACCESS_REQUIRED"
	CodeScope             = "INSUFFICIENT_SCOPE"
	CodeNotFound          = "NOT_FOUND"
	CodePropertyAmbiguous = "PROPERTY_AMBIGUOUS"
)

// A Denial is a decision against a request. It is an answer, not a failure.
type Denial struct {
	Code    string
	Message string
}

func (d *Denial) Error() string { return d.Message }

func deny(code, format string, args ...any) *Denial {
	return &Denial{Code: code, Message: fmt.Sprintf(format, args...)}
}
