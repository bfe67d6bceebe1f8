package translate

import "fmt"

// The codes of an InputError (spec: Errors).
const (
	CodeValidation           = "VALIDATION_ERROR"
	CodeUnsupportedParameter = "UNSUPPORTED_PARAMETER"
	CodeDateRangeTooOld      = "DATE_RANGE_TOO_OLD"
)

// An InputError is why a request cannot be asked. Its message names the parameter and the reason and is meant for the
// client.
type InputError struct {
	Code    string
	Message string
}

func (e *InputError) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &InputError{Code: CodeValidation, Message: fmt.Sprintf(format, args...)}
}
