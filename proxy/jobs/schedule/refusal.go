package schedule

import (
	"errors"
	"time"
)

// Class says what a refusal means for what is yet to be asked.
type Class uint8

// The classes of a Refusal.
const (
	Unavailable    Class = iota // no answer: try again in a while
	Quota                       // the site has to rest
	AccessLost                  // the property cannot be read; others of the connection may be
	ConnectionLost              // nothing can be read through the connection until somebody mends it
	Rejected                    // the question itself is refused, and would be again
)

// Refusal is a question that the upstream did not answer.
type Refusal struct {
	Class Class
	Rest  time.Duration // of Quota: for how long the site is not to be asked
	Err   error         // for people
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// ClassOf returns what an error means; what is not known to be lasting may pass.
func ClassOf(err error) Class {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Class
	}
	return Unavailable
}

// RestOf returns for how long the site is not to be asked after an error.
func RestOf(err error) time.Duration {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Rest
	}
	return 0
}
