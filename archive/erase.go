package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize/english"

	"sara/archive/bucket"
)

// Erase deletes the whole history of a property from the bucket, including the copies of damaged objects. It returns how many objects
// it deleted. After an error, call Erase again to delete the rest. Histories in other processes may still serve what they
// have in memory.
func (h *History) Erase(ctx context.Context, property string) (deleted int, err error) {
	if err := checkProperty(property); err != nil {
		return 0, fmt.Errorf("erase: %w", err)
	}
	defer h.stripe(property).Add(1)
	for _, prefix := range []string{propertyPrefix(property), setAsidePrefix + propertyPrefix(property)} {
		entries, err := h.bucket.List(ctx, prefix)
		if err != nil {
			return deleted, fmt.Errorf("erase: %w", err)
		}
		for _, e := range entries {
			switch err := h.bucket.Delete(ctx, e.Name, e.Revision); {
			case err == nil:
				deleted++
			case errors.Is(err, bucket.ErrChanged): // another process deleted it first, or is still writing
			default:
				return deleted, fmt.Errorf("erase: %w", err)
			}
		}
		switch left, err := h.bucket.List(ctx, prefix); {
		case err != nil:
			return deleted, fmt.Errorf("erase: %w", err)
		case len(left) > 0:
			return deleted, fmt.Errorf("erase: %s left, such as %s: %w", english.Plural(len(left), "object is", "objects are"),
				left[0].Name, bucket.ErrChanged)
		}
	}
	return deleted, nil
}
