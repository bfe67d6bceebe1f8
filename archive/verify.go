package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"sara/archive/bucket"
	"sara/translate"
)

// A Verified is the result of Verify for one object.
type Verified struct {
	Month translate.Date // its first day
	Bytes int64
	Rows  int   // of all dimensions
	Days  int   // archived under at least one dimension
	Err   error // an *ObjectError if it is damaged; nil if it is not
}

// Verify reads every object of a property from the bucket, bypassing all caches, and calls found with the result of each, in order.
// It checks the size against the listing, the checksum against the bytes, and the ledger against the property and the month. All rows must
// be readable, and of days in the ledger. A damaged object is not an error of Verify; one that cannot be read is.
func (h *History) Verify(ctx context.Context, property string, found func(Verified)) error {
	if err := checkProperty(property); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	entries, err := h.bucket.List(ctx, propertyPrefix(property))
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for _, e := range entries {
		month, ok := parseObjectName(property, e.Name)
		if !ok {
			continue
		}
		v, err := h.verify(ctx, property, month, e)
		if errors.Is(err, bucket.ErrNotFound) {
			continue // removed since it was listed
		}
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		found(v)
	}
	return nil
}

func (h *History) verify(ctx context.Context, property string, month translate.Date, e bucket.Entry) (Verified, error) {
	v := Verified{Month: month, Bytes: e.Size}
	data, revision, err := h.get(ctx, property, month)
	if errors.As(err, new(*ObjectError)) {
		v.Err = err
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if revision == e.Revision && int64(len(data)) != e.Size {
		v.Err = &ObjectError{Name: e.Name, Month: month, Reason: fmt.Errorf("it has %d bytes, but the listing says %d", len(data), e.Size)}
		return v, nil
	}
	v.Bytes = int64(len(data))
	o, err := openObject(property, month, data)
	if err != nil {
		v.Err = err
		return v, nil
	}
	v.Rows, v.Days, v.Err = o.verify()
	return v, nil
}

// verify decodes all rows, and counts them and the archived days.
func (o *object) verify() (rows, days int, err error) {
	archived := [longestMonth]bool{}
	for _, by := range Dimensions() {
		t, err := o.table(by) // checks the rows against the row group and the ledger
		if err != nil {
			return rows, days, err
		}
		rows += len(t.rows)
		for day, s := range o.states[by] {
			archived[day] = archived[day] || s != absent
		}
	}
	for _, yes := range archived {
		if yes {
			days++
		}
	}
	return rows, days, nil
}

// setAsidePrefix starts the names of damaged objects that were set aside.
const setAsidePrefix = "damaged/"

// SetAside moves a damaged object out of the archive, so its days become missing and can be collected again. It is copied
// first and only then removed; the copy keeps all of its bytes. SetAside refuses an object that is not damaged. It returns the copy's name, or
// an *ObjectError for an object that cannot be copied, because it is larger than any object of the archive: an operator must move it.
func (h *History) SetAside(ctx context.Context, property string, month translate.Date) (aside string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("set aside %s: %w", month.Time().Format(monthLayout), err)
		}
	}()
	if err := checkProperty(property); err != nil {
		return "", err
	}
	name := objectName(property, month)
	data, revision, err := h.get(ctx, property, month)
	if err != nil {
		return "", err
	}
	if o, err := openObject(property, month, data); err == nil {
		if _, _, err = o.verify(); err == nil {
			return "", errors.New("the object is not damaged")
		}
	}
	aside = fmt.Sprintf("%s%s-%016x", setAsidePrefix, name, xxhash.Sum64(data))
	if _, err := h.bucket.Put(ctx, aside, data, ""); err != nil {
		return "", err
	}
	if copied, _, err := h.bucket.Get(ctx, aside); err != nil || !bytes.Equal(copied, data) {
		return "", fmt.Errorf("the copy %s differs: %w", aside, errors.Join(err, bucket.ErrChanged))
	}
	defer h.stripe(property).Add(1)
	return aside, h.bucket.Delete(ctx, name, revision)
}
