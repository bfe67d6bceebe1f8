package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sara/translate"
)

// smallMonth returns February 2026 with every kind of day.
func smallMonth(tb testing.TB) *month {
	tb.Helper()
	m := &month{ledger: newLedger(testProperty, translate.NewDate(2026, 2, 1))}
	set := func(by translate.Dimension, day int, s state, rows ...row) {
		ranked, err := rank(by, rows)
		if err != nil {
			tb.Fatal(err)
		}
		m.states[by][day-1], m.rows[by][day-1] = s, ranked
	}
	set(translate.ByQuery, 2, collectedFinal,
		row{[]byte("ö"), 1, 30, 2.5}, row{[]byte("b"), 1, 20, 7}, row{[]byte("a b"), 4, 9, 1.25})
	set(translate.ByQuery, 1, importedFinal, row{[]byte("b"), 0, 1, 99})
	set(translate.ByQuery, 28, collected) // without traffic
	set(translate.ByPage, 1, imported, row{[]byte("https://example.com/"), 5, 31, 3.125})
	set(translate.ByDate, 2, collectedFinal, row{nil, 7, 70, 4})
	return m
}

func encoded(tb testing.TB, m *month) []byte {
	tb.Helper()
	data, err := m.encode()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestObjectFollowsTheFormat(t *testing.T) {
	data := encoded(t, smallMonth(t))
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i, group := range file.RowGroups() {
		fmt.Fprintf(&got, "row group %d\n", i)
		rows := make([]parquet.Row, 10)
		reader := group.Rows()
		n, err := reader.ReadRows(rows)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		for _, r := range rows[:n] {
			fmt.Fprintf(&got, "%s|%s|%s|%d|%d|%v\n", translate.Date(r[0].Int32()), r[1], r[2], r[3].Int64(), r[4].Int64(), r[5].Double())
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range file.Metadata().KeyValueMetadata {
		fmt.Fprintf(&got, "%s=%.34s\n", pair.Key, pair.Value)
	}
	want := `row group 0
2026-02-01|page|https://example.com/|5|31|3.125
row group 1
2026-02-01|query|b|0|1|99
2026-02-02|query|a b|4|9|1.25
2026-02-02|query|b|1|20|7
2026-02-02|query|ö|1|30|2.5
row group 2
2026-02-02|total||7|70|4
sara.checksum=xxh64-of-the-file-with-zeros-here:
sara.days.country=----------------------------
sara.days.device=----------------------------
sara.days.page=i---------------------------
sara.days.query=IC-------------------------c
sara.days.total=-C--------------------------
sara.format=1
sara.month=2026-02
sara.property_id=` + testProperty[:34] + "\n"
	if got.String() != want {
		t.Errorf("it is\n%s\nwant\n%s", &got, want)
	}
	const schema = `message storedRow {
	required int32 date (DATE);
	required binary dimension (STRING);
	required binary key (STRING);
	required int64 clicks (INT(64,true));
	required int64 impressions (INT(64,true));
	required double position;
}`
	if got := file.Schema().String(); got != schema {
		t.Errorf("the schema is %s", got)
	}
}

func TestUnpackReversesEncode(t *testing.T) {
	for _, m := range []*month{smallMonth(t), {ledger: newLedger(testProperty, translate.NewDate(2024, 2, 1))}} {
		data := encoded(t, m)
		o, err := openObject(testProperty, m.month, data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := o.unpack()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(again), fmt.Sprint(m); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if !bytes.Equal(encoded(t, again), data) {
			t.Error("it is encoded in another way the second time")
		}
	}
}

func TestOpenRefusesADamagedOrForeignObject(t *testing.T) {
	m := smallMonth(t)
	data := encoded(t, m)
	refuse := func(what string, data []byte, property string, first translate.Date) {
		t.Helper()
		_, err := openObject(property, first, data)
		if fault := (*ObjectError)(nil); !errors.As(err, &fault) || fault.Name != objectName(property, first) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for cut := 0; cut < len(data); cut += 97 {
		refuse(fmt.Sprintf("cut to %d bytes", cut), data[:cut], testProperty, m.month)
		refuse(fmt.Sprintf("zeros from byte %d", cut), append(slices.Clone(data[:cut]), make([]byte, len(data)-cut)...), testProperty, m.month)
	}
	for at := range data {
		flipped := slices.Clone(data)
		flipped[at] ^= 1 << (at % 8)
		refuse(fmt.Sprintf("a bit of byte %d flipped", at), flipped, testProperty, m.month)
	}
	refuse("with more at the end", append(slices.Clone(data), 0), testProperty, m.month)
	refuse("of another property", data, "another", m.month)
	empty := encoded(t, &month{ledger: m.ledger}) // its rows do not show that they are of other days
	for n := 1; n <= 24; n++ {
		refuse("of another month", data, testProperty, m.month.AddMonths(n))
		refuse("of another month, without rows", empty, testProperty, m.month.AddMonths(n))
	}

	next := bytes.Replace(data, []byte("sara.format\x18\x011"), []byte("sara.format\x18\x012"), 1)
	if bytes.Equal(next, data) {
		t.Fatal("the version is not where it was expected")
	}
	if err := writeChecksum(next); err != nil {
		t.Fatal(err)
	}
	refuse("of the next version", next, testProperty, m.month)
	if _, err := openObject(testProperty, m.month, next); !strings.Contains(fmt.Sprint(err), `its format is version "2"`) {
		t.Error(err)
	}
}

// A damaged object affects only the days of its own month.
func TestADamagedObjectIsNeitherServedNorOverwritten(t *testing.T) {
	h := newTestHistory(t)
	b := h.bucket
	m := smallMonth(t)
	data := encoded(t, m)
	data[100] ^= 1
	name := objectName(testProperty, m.month)
	if _, err := b.Put(t.Context(), name, data, ""); err != nil {
		t.Fatal(err)
	}
	r := translate.DateRange{Start: m.month, End: m.month + 27}
	next := m.month.AddMonths(1)
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: next, Dimension: translate.ByQuery, Final: true, Rows: new(translate.Rows)}}); err != nil {
		t.Fatal(err)
	}
	read, err := h.Read(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: r.Start, End: next}, 0)
	if err != nil || len(read.Missing) != 28 || read.Last == nil || *read.Last != next || !read.Damage.Has(m.month) || read.Damage.Has(next) {
		t.Errorf("read: %+v, %v", read, err)
	}
	missing, damage, err := h.Missing(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: r.Start, End: next})
	if err != nil || len(missing) != 28 || !damage.Has(m.month) || damage.Has(next) {
		t.Errorf("missing: %v, %v, %v", missing, damage, err)
	}
	if bounds, ok, err := h.Bounds(t.Context(), testProperty, translate.ByQuery, 0); err != nil || !ok || bounds.Start != next || bounds.End != next {
		t.Errorf("bounds: %v, %v, %v", bounds, ok, err)
	}
	if begins, ok, err := h.Begins(t.Context(), testProperty, m.month); err != nil || ok {
		t.Errorf("begins: %v, %v, %v", begins, ok, err)
	}
	days, daysErr := h.Days(t.Context(), testProperty)
	if c := days[translate.ByQuery]; c.Days != 1 || c.First != next {
		t.Errorf("days: %+v", c)
	}
	if damaged, ok := errors.AsType[*DamageError](daysErr); !ok || len(damaged.Objects) != 1 || h.DamagedReads() != 3 {
		t.Errorf("%v, %d damaged reads", daysErr, h.DamagedReads())
	}
	mergeErr := h.Merge(t.Context(), testProperty, []Day{{Date: m.month + 3, Dimension: translate.ByDevice}})
	var exportErr error
	for _, err := range h.Export(t.Context(), testProperty, r) {
		exportErr = err
	}
	for what, err := range map[string]error{"days": daysErr, "merge": mergeErr, "export": exportErr,
		"prune": h.Prune(t.Context(), testProperty, m.month+5)} {
		if fault := (*ObjectError)(nil); !errors.As(err, &fault) || fault.Name != name {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, _, err := b.Get(t.Context(), name); !bytes.Equal(now, data) || err != nil {
		t.Errorf("it has been changed (%v)", err)
	}
}

// A dimension that does not decode, although its bytes are as written, counts as damage for whatever is read from it: its own rows, and
// totals derived from them.
func TestATableThatDoesNotDecodeIsDamage(t *testing.T) {
	m := smallMonth(t) // the total of the first day is that of its pages
	h := newTestHistory(t)
	b := h.bucket
	if _, err := b.Put(t.Context(), objectName(testProperty, m.month), withoutTable(t, m, translate.ByPage), ""); err != nil {
		t.Fatal(err)
	}
	for _, by := range []translate.Dimension{translate.ByQuery, translate.ByPage, translate.ByDate, translate.ByDate} {
		damaged := by != translate.ByQuery
		read, err := h.Read(t.Context(), testProperty, by, translate.DateRange{Start: m.month, End: m.month + 1}, 0)
		if err != nil || (read.Damage != nil) != damaged || len(read.Missing) != map[bool]int{true: 2}[damaged] {
			t.Errorf("read by %s: %+v, %v", by, read, err)
		}
	}
	other, err := h.Read(t.Context(), testProperty, translate.ByDate, translate.DateRange{Start: m.month + 1, End: m.month + 1}, 0)
	if err != nil || other.Damage != nil || other.Rows.Total().Clicks != 7 {
		t.Errorf("a day with a total of its own: %+v, %v", other, err)
	}
}

// withoutTable encodes a month, and changes a byte so that one dimension does not decode, but all others do.
func withoutTable(t *testing.T, m *month, broken translate.Dimension) []byte {
	t.Helper()
	data, dimensions := encoded(t, m), Dimensions()
	others := slices.DeleteFunc(dimensions[:], func(by translate.Dimension) bool { return by == broken })
	for at := range data {
		changed := slices.Clone(data)
		changed[at] ^= 0xff
		if writeChecksum(changed) != nil {
			continue
		}
		o, err := openObject(testProperty, m.month, changed)
		if err != nil {
			continue
		}
		isBroken := func(by translate.Dimension) bool { _, err := o.table(by); return err != nil }
		if isBroken(broken) && !slices.ContainsFunc(others, isBroken) {
			return changed
		}
	}
	t.Fatal("every byte changes more, or nothing")
	return nil
}

func TestUserTextCannotForgeTheChecksum(t *testing.T) {
	m := smallMonth(t)
	m.states[translate.ByQuery][5] = collected
	m.rows[translate.ByQuery][5] = []row{{key: []byte("zz " + checksumMark + noChecksum), clicks: 1, impressions: 1, position: 1}}
	if _, err := openObject(testProperty, m.month, encoded(t, m)); err != nil {
		t.Error(err)
	}
}

func TestDamageErrorCountsTheOtherObjects(t *testing.T) {
	objects := []*ObjectError{{Name: "a", Reason: errors.New("torn")}, {Name: "b"}, {Name: "c"}}
	for more, want := range []string{"", " (and 1 more damaged object)", " (and 2 more damaged objects)"} {
		if got := (&DamageError{objects[:1+more]}).Error(); got != objects[0].Error()+want {
			t.Errorf("of %d objects: %s", 1+more, got)
		}
	}
}
