package proxy

import (
	"context"

	"sara/archive"
	"sara/translate"
)

// History is the archive. Its implementation is archive.History.
type History interface {
	// Read answers a dimension and a range of days. first is how many of the first rows are needed, or 0 for all.
	Read(ctx context.Context, propertyID string, by translate.Dimension, r translate.DateRange, first int) (archive.Result, error)

	// Sum is Read of all rows except for ByDate, without ranking them. The result must be released.
	Sum(ctx context.Context, propertyID string, by translate.Dimension, r translate.DateRange) (archive.Result, error)

	// Missing returns the days of a range that are not archived under a dimension, in order, and those whose objects are damaged.
	Missing(ctx context.Context, propertyID string, by translate.Dimension, r translate.DateRange) ([]translate.Date, *archive.DamageError, error)

	// Bounds returns the first and the last archived day from a day on, under a dimension, or for ByDate under any.
	Bounds(ctx context.Context, propertyID string, by translate.Dimension, from translate.Date) (r translate.DateRange, ok bool, err error)

	// Version returns a number that changes when anything that is archived of a property does.
	Version(ctx context.Context, propertyID string) (uint64, error)

	// Begins returns the first archived day with impressions, from a day on.
	Begins(ctx context.Context, propertyID string, from translate.Date) (first translate.Date, ok bool, err error)
}
