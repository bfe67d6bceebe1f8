// Package panics makes a panic an error, so that it fails what it belongs to and not the process: a request, or those who wait for another
// goroutine.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// An Error is a panic, with the stack of its goroutine.
type Error struct {
	Value any
	stack []byte
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.stack) }

// New returns the error of a panic that was just recovered.
func New(value any) *Error { return &Error{Value: value, stack: debug.Stack()} }

// Recover sets err to the *Error of a panic, if there is one. It must be deferred.
func Recover(err *error) {
	switch value := recover().(type) {
	case nil:
	case *Error: // by Repanic
		*err = value
	default:
		*err = New(value)
	}
}

// Repanic panics with the *Error in err, if there is one, in another goroutine than that of the panic.
func Repanic(err error) {
	if e, ok := errors.AsType[*Error](err); ok {
		panic(e)
	}
}
