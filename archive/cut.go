package archive

import (
	"context"
	"fmt"
	"sort"

	"sara/translate"
)

// Cut reports whether rows of a range may be missing because the archive keeps no more than TopRows of a day: whether any
// of its days is full. Countries, devices and totals are never cut.
func (h *History) Cut(ctx context.Context, property string, by translate.Dimension, r translate.DateRange) (bool, error) {
	if by != translate.ByQuery && by != translate.ByPage {
		return false, nil
	}
	cut := false
	err := each(ctx, h, property, r, h.load, func(o *object) error {
		rows, err := o.table(by)
		if err == nil {
			first, last := o.overlap(r)
			cut = cut || rows.hasFullDay(first, last)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("count %s of property %.80q from %s to %s: %w", dimensionName(by), property, r.Start, r.End, err)
	}
	return cut, nil
}

// hasFullDay reports whether a day from first up to last has TopRows rows. The rows lie in the order of their days.
func (t *table) hasFullDay(first, last int) bool {
	from := sort.Search(len(t.day), func(i int) bool { return int(t.day[i]) >= first })
	for i := from; i+TopRows <= len(t.day) && int(t.day[i]) < last; i++ {
		if t.day[i] == t.day[i+TopRows-1] {
			return true
		}
	}
	return false
}
