package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

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
	version, err := h.Version(t.Context(), testProperty)
	if err != nil {
		t.Fatal(err)
	}
	aside, err := h.SetAside(t.Context(), testProperty, next)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := h.Version(t.Context(), testProperty); err != nil || now == version {
		t.Errorf("the listing is still the former one (%v)", err)
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
	wantObjectError := func(what string, err error) {
		t.Helper()
		if broken, ok := errors.AsType[*ObjectError](err); !ok || broken.Month != good.month || !errors.Is(err, bucket.ErrUnusable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	next := Day{Date: good.month.AddMonths(1), Dimension: translate.ByQuery, Rows: new(translate.Rows)}
	wantObjectError("merge", h.Merge(t.Context(), testProperty, []Day{{Date: good.month, Dimension: translate.ByQuery, Rows: new(translate.Rows)}}))
	if err := h.Merge(t.Context(), testProperty, []Day{next}); err != nil {
		t.Error(err)
	}
	wantObjectError("prune", h.Prune(t.Context(), testProperty, next.Date+1))
	if inventory, _ := h.Days(t.Context(), testProperty); len(inventory) > 0 {
		t.Errorf("a month after the unusable one was not pruned: %+v", inventory)
	}
	_, err = h.SetAside(t.Context(), testProperty, good.month)
	wantObjectError("set aside", err)
}

// A hooked bucket changes what some calls return.
type hooked struct {
	bucket.Bucket
	put func(name string) error // nil, or an error instead of writing
	get func(name string, data []byte) ([]byte, error)
}

func (b hooked) Put(ctx context.Context, name string, data []byte, revision string) (string, error) {
	if err := b.put(name); err != nil {
		return "", err
	}
	return b.Bucket.Put(ctx, name, data, revision)
}

func (b hooked) Get(ctx context.Context, name string) ([]byte, string, error) {
	data, revision, err := b.Bucket.Get(ctx, name)
	if err == nil {
		data, err = b.get(name, data)
	}
	return data, revision, err
}

// A damaged object is only removed once its copy is known to be whole.
func TestSetAsideRemovesNothingWithoutACopy(t *testing.T) {
	month := smallMonth(t).month
	damaged := encoded(t, smallMonth(t))
	damaged[100] ^= 1
	failure := errors.New("the store fails")
	isCopy := func(name string) bool { return strings.HasPrefix(name, setAsidePrefix) }
	for name, c := range map[string]struct {
		property string
		copied   []byte // by an earlier run
		put      error  // of the copy
		get      error  // of the copy
		cut      int    // how many bytes the copy lacks when it is read
		replaced bool   // before it is removed
		want     error
	}{
		"no failure":                {},
		"an interrupted run before": {copied: damaged},
		"another copy":              {copied: []byte("other"), want: bucket.ErrChanged},
		"no space":                  {put: failure, want: failure},
		"an unreadable copy":        {get: failure, want: failure},
		"a truncated copy":          {cut: 1, want: bucket.ErrChanged},
		"a writer meanwhile":        {replaced: true, want: bucket.ErrChanged},
		"another property":          {property: "other", want: bucket.ErrNotFound},
	} {
		plain := newTestHistory(t).bucket
		b := bucket.Bucket(hooked{Bucket: plain, put: func(name string) error {
			if isCopy(name) {
				return c.put
			}
			return nil
		}, get: func(name string, data []byte) ([]byte, error) {
			if isCopy(name) {
				return data[:len(data)-c.cut], c.get
			}
			return data, nil
		}})
		if c.replaced {
			b = writtenMeanwhile{b}
		}
		object := objectName(testProperty, month)
		if _, err := plain.Put(t.Context(), object, damaged, ""); err != nil {
			t.Fatal(err)
		}
		if c.copied != nil {
			aside := fmt.Sprintf("%s%s-%016x", setAsidePrefix, object, xxhash.Sum64(damaged))
			if _, err := plain.Put(t.Context(), aside, c.copied, ""); err != nil {
				t.Fatal(err)
			}
		}
		_, err := historyOf(t, HistoryConfig{Bucket: b}).SetAside(t.Context(), cmp.Or(c.property, testProperty), month)
		if !errors.Is(err, c.want) || err != nil && !strings.HasPrefix(err.Error(), "set aside 2026-02: ") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, _, left := plain.Get(t.Context(), object); (left == nil) != (c.want != nil) {
			t.Errorf("%s: reading the object afterwards: %v", name, left)
		}
	}
	if _, err := newTestHistory(t).SetAside(t.Context(), "../other", month); err == nil || !strings.Contains(err.Error(), "not a property id") {
		t.Errorf("a property that cannot be: %v", err)
	}
}

// A relisting bucket lists its objects otherwise than they are by now.
type relisting struct {
	bucket.Bucket
	change func(*bucket.Entry)
}

func (b relisting) List(ctx context.Context, prefix string) ([]bucket.Entry, error) {
	entries, err := b.Bucket.List(ctx, prefix)
	for i := range entries {
		b.change(&entries[i])
	}
	return entries, err
}

// Objects that are not months are left alone, and what changes while the objects are verified is no damage.
func TestVerifyIgnoresOtherObjectsAndChanges(t *testing.T) {
	plain := newTestHistory(t).bucket
	month := smallMonth(t).month
	data := encoded(t, smallMonth(t))
	object := objectName(testProperty, month)
	for name, content := range map[string]string{
		object: string(data),
		propertyPrefix(testProperty) + "month=2026-02/notes.txt":       "x",
		propertyPrefix(testProperty) + "month=2026-13/history.parquet": "x",
	} {
		if _, err := plain.Put(t.Context(), name, []byte(content), ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(*bucket.Entry)
		want   string // how many are found, and whether they are damaged
	}{
		"no change":      {func(*bucket.Entry) {}, "1 sound"},
		"removed":        {func(e *bucket.Entry) { e.Name = objectName(testProperty, month+40) }, "0 sound"},
		"replaced":       {func(e *bucket.Entry) { e.Revision, e.Size = "former", e.Size+1 }, "1 sound"},
		"of wrong bytes": {func(e *bucket.Entry) { e.Size++ }, "1 damaged"},
	} {
		h := historyOf(t, HistoryConfig{Bucket: relisting{plain, func(e *bucket.Entry) {
			if e.Name == object {
				c.change(e)
			}
		}}})
		found, state := 0, "sound"
		err := h.Verify(t.Context(), testProperty, func(v Verified) {
			if found++; v.Err != nil {
				state = "damaged"
			} else if v.Bytes != int64(len(data)) {
				t.Errorf("%s: %d bytes, want %d", name, v.Bytes, len(data))
			}
		})
		if got := fmt.Sprint(found, " ", state); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	if days, err := historyOf(t, HistoryConfig{Bucket: plain}).Days(t.Context(), testProperty); err != nil || days[translate.ByQuery].Days != 3 {
		t.Errorf("%+v, %v", days, err)
	}
	if err := newTestHistory(t).Verify(t.Context(), "../other", func(Verified) {}); err == nil {
		t.Error("a property that cannot be is verified")
	}
}
