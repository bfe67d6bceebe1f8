package archive

import (
	"context"
	"errors"
	"testing"

	"sara/archive/bucket"
	"sara/translate"
)

func TestEraseDeletesOnlyThePropertysObjects(t *testing.T) {
	h := newTestHistory(t)
	b := h.bucket
	good := smallMonth(t)
	const other = "01890a5d-ac96-774b-bcce-b302099a8058"
	for _, name := range []string{objectName(testProperty, good.month), objectName(testProperty, good.month.AddMonths(1)),
		setAsidePrefix + objectName(testProperty, good.month) + "-0123456789abcdef", objectName(other, good.month)} {
		if _, err := b.Put(t.Context(), name, encoded(t, good), ""); err != nil {
			t.Fatal(err)
		}
	}
	if deleted, err := h.Erase(t.Context(), testProperty); err != nil || deleted != 3 {
		t.Errorf("%d objects are deleted: %v", deleted, err)
	}
	if deleted, err := h.Erase(t.Context(), testProperty); err != nil || deleted != 0 {
		t.Errorf("%d more objects are deleted: %v", deleted, err)
	}
	if left, err := b.List(t.Context(), ""); err != nil || len(left) != 1 || left[0].Name != objectName(other, good.month) {
		t.Errorf("%v are left: %v", left, err)
	}
	if _, err := h.Erase(t.Context(), ""); err == nil {
		t.Error("the history of no property is erased")
	}
}

// A writtenMeanwhile has each object replaced just before it is deleted.
type writtenMeanwhile struct{ bucket.Bucket }

func (b writtenMeanwhile) Delete(ctx context.Context, name, revision string) error {
	data, now, err := b.Get(ctx, name)
	if err == nil {
		_, err = b.Put(ctx, name, data, now)
	}
	return errors.Join(err, b.Bucket.Delete(ctx, name, revision))
}

// If another process is still writing, an object is left, and the caller must know: otherwise it would forget the property and leave its history.
func TestEraseSaysWhatIsLeft(t *testing.T) {
	h := historyOf(t, HistoryConfig{Bucket: writtenMeanwhile{newTestHistory(t).bucket}})
	if err := h.Merge(t.Context(), testProperty,
		[]Day{{Date: smallMonth(t).month, Dimension: translate.ByQuery, Final: true, Rows: new(translate.Rows)}}); err != nil {
		t.Fatal(err)
	}
	if deleted, err := h.Erase(t.Context(), testProperty); deleted != 0 || !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("%d objects are deleted, %v", deleted, err)
	}
}
