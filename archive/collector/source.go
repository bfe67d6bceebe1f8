package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sara/translate"
)

// Source asks the upstream. It is safe for concurrent use.
type Source interface {
	// Ask returns the rows that answer a question about a property. It bounds its time itself. An error that is no *Refusal
	// counts as Unavailable.
	Ask(ctx context.Context, p Property, q translate.Query) (*translate.Rows, error)
}

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

// Refusal is a question that was not answered.
type Refusal struct {
	Class Class
	Rest  time.Duration // of Quota: for how long the site is not to be asked
	Err   error         // for people
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// classOf returns what an error means; what is not known to be lasting may pass.
func classOf(err error) Class {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Class
	}
	return Unavailable
}

// restOf returns for how long the site is not to be asked after an error.
func restOf(err error) time.Duration {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Rest
	}
	return 0
}

// ContradictionError tells that the upstream says of the same days, in answers to several questions, both that there was
// traffic and that there was none. Those days are not archived.
type ContradictionError struct {
	Days []translate.Date // in order
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("the upstream contradicts itself about %d days, of which the first is %s: they are not archived",
		len(e.Days), e.Days[0])
}
