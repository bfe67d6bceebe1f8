package archive

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/archive/bucket"
	"sara/translate"
)

func TestVerifyFindsDamageAndSetAsideKeepsTheBytes(t *testing.T) {
	h := newTestHistory(t)
	b := h.bucket
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

// An object that is too large affects only its own month, not other properties or the store.
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
		if err := h.Merge(t.Context(), property,
			[]Day{{Date: good.month, Dimension: translate.ByQuery, Final: true, Rows: new(translate.Rows)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(folder, objectName(testProperty, good.month)), bucket.MaxObject+1); err != nil {
		t.Fatal(err)
	}
	if h, err = NewHistory(HistoryConfig{Bucket: watched}); err != nil { // with nothing in memory
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
