package archive

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"sara/translate"
)

// A DamageError lists the objects of a property that cannot be used. The other months are not affected.
type DamageError struct {
	Objects []*ObjectError // ordered by month; at least one
}

func (e *DamageError) Error() string {
	if n := len(e.Objects); n > 1 {
		return fmt.Sprintf("%v (and %s)", e.Objects[0], english.Plural(n-1, "more damaged object", ""))
	}
	return e.Objects[0].Error()
}

// Unwrap returns the errors of the objects.
func (e *DamageError) Unwrap() []error {
	errs := make([]error, len(e.Objects))
	for i, o := range e.Objects {
		errs[i] = o
	}
	return errs
}

// Has reports whether a day is in a damaged month; false for a nil error.
func (e *DamageError) Has(day translate.Date) bool {
	return e != nil && slices.ContainsFunc(e.Objects, func(o *ObjectError) bool { return o.Month == day.MonthStart() })
}
