package archive

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/archive/bucket"
	"sara/translate"
)

func TestVerifyFindsDamageAndSetAsideKeepsTheBytes(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	good := smallMonth(t)
	damaged := bytes.Clone(encoded(t, good))
	damaged[100] ^= 1
	next := good.month.AddMonths(1)
	for month, data := range map[translate.Date][]byte{good.month: encoded(t, good), next: damaged} {
		if _, err := b.Put(t.Context(), objectName(testProperty, month), data, ""); err != nil {
			t.Fatal(err)
		}
	}
	verify := func() (all []Verified) {
		t.Helper()
		if err := h.Verify(t.Context(), testProperty, func(v Verified) { all = append(all, v) }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := verify()
	if len(all) != 2 || all[0].Err != nil || all[0].Rows != 6 || all[0].Days != 3 || all[0].Bytes != int64(len(damaged)) {
		t.Fatalf("%+v", all)
	}
	if _, ok := errors.AsType[*ObjectError](all[1].Err); !ok || all[1].Month != next {
		t.Errorf("%+v", all[1])
	}
	if _, err := h.SetAside(t.Context(), testProperty, good.month); err == nil || !strings.Contains(err.Error(), "not damaged") {
		t.Errorf("a good object: %v", err)
	}
	aside, err := h.SetAside(t.Context(), testProperty, next)
	if err != nil {
		t.Fatal(err)
	}
	if kept, _, err := b.Get(t.Context(), aside); err != nil || !bytes.Equal(kept, damaged) {
		t.Errorf("the copy %s differs (%v)", aside, err)
	}
	if all = verify(); len(all) != 1 || all[0].Err != nil {
		t.Errorf("afterwards: %+v", all)
	}
	if _, err := h.Days(t.Context(), testProperty); err != nil {
		t.Error(err)
	}
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: next, Dimension: translate.ByQuery, Rows: new(translate.Rows)}}); err != nil {
		t.Error(err)
	}
}

func TestEraseDeletesOnlyThePropertysObjects(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
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

// What another process still writes is left, and the caller must know, or it forgets the property with its history in the bucket.
func TestEraseSaysWhatIsLeft(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: writtenMeanwhile{b}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: smallMonth(t).month, Dimension: translate.ByQuery, Final: true, Rows: new(translate.Rows)}}); err != nil {
		t.Fatal(err)
	}
	if deleted, err := h.Erase(t.Context(), testProperty); deleted != 0 || !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("%d objects are deleted, %v", deleted, err)
	}
}

// An object that is too large concerns its own month, neither other properties nor the store.
func TestAnUnusableObjectDoesNotCloseTheStore(t *testing.T) {
	folder := t.TempDir()
	b, err := bucket.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := bucket.NewWatched(b, bucket.WatchConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: watched})
	if err != nil {
		t.Fatal(err)
	}
	good := smallMonth(t)
	const other = "01890a5d-ac96-774b-bcce-b302099a8058"
	for _, property := range []string{testProperty, other} {
		if err := h.Merge(t.Context(), property, []Day{{Date: good.month, Dimension: translate.ByQuery, Final: true, Rows: new(translate.Rows)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(folder, objectName(testProperty, good.month)), bucket.MaxObject+1); err != nil {
		t.Fatal(err)
	}
	if h, err = NewHistory(HistoryConfig{Bucket: watched}); err != nil { // which has nothing in memory
		t.Fatal(err)
	}
	day := translate.DateRange{Start: good.month, End: good.month}
	for range 4 {
		if read, err := h.Read(t.Context(), testProperty, translate.ByQuery, day, 0); err != nil || read.Damage == nil || len(read.Missing) != 1 {
			t.Errorf("read: %+v, %v", read, err)
		}
	}
	if read, err := h.Read(t.Context(), other, translate.ByQuery, day, 0); err != nil || read.Damage != nil {
		t.Errorf("another property: %+v, %v", read, err)
	}
	var found []Verified
	err = h.Verify(t.Context(), testProperty, func(v Verified) { found = append(found, v) })
	if err != nil || len(found) != 1 || found[0].Err == nil {
		t.Errorf("verify: %+v, %v", found, err)
	}
}
