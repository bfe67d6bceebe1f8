package collector

import (
	"context"
	"fmt"

	"sara/translate"
)

// Source asks the upstream. It is safe for concurrent use.
type Source interface {
	// Ask returns the rows that answer a question about a property. It bounds its time itself. An error that is no
	// *daily.Refusal counts as Unavailable.
	Ask(ctx context.Context, p Property, q translate.Query) (*translate.Rows, error)
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
