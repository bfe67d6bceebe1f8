package translate

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
)

// searchRows returns n realistic rows: repeated words, few clicks in the tail, figures computed as the upstream does.
func searchRows(t testing.TB, n int) *Rows {
	random := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields("best cheap how to running trail shoes for women men kids winter 2026 review size guide " +
		"nike asics wide flat feet marathon sale near me waterproof which are vs")
	rows := make([]referenceRow, n)
	for i := range rows {
		var key []string
		for range 2 + random.IntN(5) {
			key = append(key, words[random.IntN(len(words))])
		}
		clicks := int64(20_000 / (1 + i) * (1 + i%2))
		impressions := clicks + 1 + int64(random.ExpFloat64()*float64(1+400_000/(1+i)))
		below := int64(random.ExpFloat64() * 12 * float64(impressions))
		rows[i] = referenceRow{fmt.Sprint(strings.Join(key, " "), " ", i%97), Metrics{clicks, impressions,
			float64(clicks) / float64(impressions), 1 + float64(below)/float64(impressions)}}
	}
	return rowsOf(t, rows)
}

// equalRows compares figures bit by bit.
func equalRows(a, b *Rows) bool {
	if a.Len() != b.Len() || a.traits != b.traits {
		return false
	}
	for i, m := range a.metrics {
		n := b.metrics[i]
		if m != n || math.Signbit(m.CTR) != math.Signbit(n.CTR) || math.Signbit(m.Position) != math.Signbit(n.Position) ||
			!bytes.Equal(a.Key(i), b.Key(i)) {
			return false
		}
	}
	return true
}

func TestRowsRoundTripBitForBit(t *testing.T) {
	f := func(rows *Rows) {
		t.Helper()
		data := encoded(rows)
		got, err := decodeRows(data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encoded(got), data) || !equalRows(got, rows) {
			t.Errorf("%d rows came back otherwise", rows.Len())
		}
		clear(data)
		if !equalRows(got, rows) {
			t.Errorf("%d rows changed with the data", rows.Len())
		}
	}
	for _, n := range []int{0, 1, 2, 1000, WideSample} {
		f(searchRows(t, n))
	}
	f(rowsOf(t, randomRows(rand.New(rand.NewPCG(1, 1)), 500)))
	f(sampleRows(t))
	read, err := readRows(upstreamBody(300), ByQuery) // positions that have no code
	if err != nil {
		t.Fatal(err)
	}
	f(read)
	f(rowsOf(t, []referenceRow{{"no impressions", Metrics{3, 0, 0.5, 7}}, {"none at all", Metrics{}},
		{"largest", Metrics{1 << 53, 1 << 53, math.MaxInt32, math.MaxInt32}},
		{"smallest", Metrics{1, 1, 5e-324, 5e-324}}, {"below the first place", Metrics{0, 10, 0, 0.5}}, {"zero", Metrics{0, 10, 0, 0}},
		{"\x00é😀", Metrics{1, 3, 1.0 / 3, 4.0 / 3}}}))
}

// The upstream rounds in either way.
func TestPositionIsStoredAsInteger(t *testing.T) {
	const most = 4 // bytes: two for the position, one each for clicks and impressions
	rows := make([]referenceRow, 0, 3000)
	for impressions := int64(1); impressions <= 60; impressions++ {
		for below := range int64(50) {
			n := float64(impressions)
			rows = append(rows, referenceRow{"", Metrics{0, impressions, 0, 1 + float64(below)/n}},
				referenceRow{"", Metrics{0, impressions, 0, float64(below+impressions) / n}})
		}
	}
	if n := len(encoded(rowsOf(t, rows))); n > most*len(rows)+16 {
		t.Errorf("%d bytes for %d rows", n, len(rows))
	}
}

func TestParseRowsRefusesTruncatedAndTrailingData(t *testing.T) {
	for _, rows := range []*Rows{searchRows(t, 0), searchRows(t, 9), sampleRows(t)} {
		data := encoded(rows)
		for n := range data {
			if _, err := decodeRows(data[:n]); err == nil {
				t.Errorf("%d of %d bytes were taken for %d rows", n, len(data), rows.Len())
			}
		}
		if _, err := decodeRows(append(data, 0)); err == nil {
			t.Error("a byte behind the rows was passed over")
		}
	}
}

func TestParseRowsRefusesWhatReadRowsRefuses(t *testing.T) {
	f := func(name string, n int, data ...any) {
		t.Helper()
		if rows, err := decodeRows(fields(append([]any{0, n<<1 | 1}, data...))); err == nil || rows != nil {
			t.Errorf("%s: read %d rows and error %v, want an error alone", name, rows.Len(), err)
		}
	}
	for _, traits := range []int{0, 1, 2*lastDate + 1} {
		if _, err := decodeRows(fields([]any{traits, 3, 1, 1, "k", 1, 2, 0, 4, 0})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := decodeRows(fields([]any{2*lastDate + 2, 3, 1, 1, "k", 1, 2, 0, 4, 0})); err == nil {
		t.Error("a day after the last was read")
	}
	f("more rows than bytes", 1<<40, 0, 0, 0, 0)
	f("more keys than bytes", 1, math.MaxInt32, 1, "k", 1, 2, 0, 4, 0)
	f("keys shorter than said", 1, 2, 1, "kk", 1, 2, 0, 4, 0)
	f("keys longer than said", 1, 1, 2, "kk", 1, 2, 0, 4, 0)
	f("a key that is not UTF-8", 1, 1, 1, "\xff", 1, 2, 0, 4, 0)
	f("a character cut in two", 2, 2, 1, 1, "é", 1, 1, 2, 2, 0, 4, 4, 0)
	f("more clicks than a double counts", 1, 1, 1, "k", 1<<53+1, 2, 0, 4, 0)
	f("more impressions than a double counts", 1, 1, 1, "k", 1, 1<<53+1, 0, 4, 0)
	f("a position out of range", 1, 1, 1, "k", 1, 1, 0, 1<<40, 0)
	f("a ctr out of range", 1, 1, 1, "k", 1<<40, 1, 0, 4, 0)
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1, math.Copysign(0, -1), math.MaxInt32 + 1} {
		f("a ctr out of range", 1, 1, 1, "k", 1, 2, 1, 0, bad, 4, 0)
		f("a position out of range", 1, 1, 1, "k", 1, 2, 0, 4, 1, 0, bad)
	}
	f("rows that are not ranked", 2, 2, 1, 1, "ab", 1, 2, 3, 3, 0, 4, 4, 0)
	f("ties that are not ranked", 2, 2, 1, 1, "ba", 1, 1, 3, 3, 0, 4, 4, 0)
	if _, err := decodeRows(fields([]any{0, 4, 2, 1, 1, "ba", 1, 1, 3, 3, 0, 4, 4, 0})); err != nil {
		t.Errorf("rows that are not said to be ranked: %v", err)
	}
	if _, err := decodeRows(fields([]any{0, 4, 2, 1, 1, "ab", 1, 1, 3, 3, 0, 4, 4, 0})); err == nil {
		t.Error("rows have two encodings")
	}
	f("an exception of no row", 1, 1, 1, "k", 1, 2, 1, 1, 0.5, 4, 0)
	f("more exceptions than rows", 1, 1, 1, "k", 1, 2, 2, 0, 0.5, 0, 0.5, 4, 0)
	f("a number too long", 1, string(bytes.Repeat([]byte{0xff}, 11)))
}

// What a Decoder has read before, whole or not, changes neither the rows that it returned nor those that follow.
func TestDecoderCanBeUsedAgain(t *testing.T) {
	var decoder Decoder
	large, small := searchRows(t, 1000), searchRows(t, 3)
	data := encoded(large)
	got, err := decoder.Rows(bytes.NewReader(data), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 1, len(data) / 2, len(data) - 1} {
		if _, err := decoder.Rows(bytes.NewReader(data[:cut]), 0); err == nil {
			t.Errorf("%d of %d bytes were decoded", cut, len(data))
		}
		if rows, err := decoder.Rows(bytes.NewReader(encoded(small)), 0); err != nil || !equalRows(rows, small) {
			t.Errorf("after %d of %d bytes: other rows, %v", cut, len(data), err)
		}
	}
	if !equalRows(got, large) {
		t.Error("the rows have changed")
	}
}

// A page that needs only the first rows is the same from all rows, and from their blocks alone, whether the others are there or not.
func TestFirstRowsAnswerLikeAll(t *testing.T) {
	report := BreakdownReport(ByQuery)
	for _, n := range []int{0, 1, firstGroup - 1, firstGroup, firstGroup + 1, NarrowSample - 1, NarrowSample, NarrowSample + 1, EnlargedSample} {
		for _, rows := range []*Rows{searchRows(t, n), new(Merger).Merge(ByQuery, 0, searchRows(t, n), new(Rows))} {
			n, ranked := rows.Len(), rows.areRanked()
			blocks := encodedBlocks(rows)
			for _, limit := range []int{1, 100, firstGroup, firstGroup + 1, maxDimensionLimit} {
				p := &Params{Limit: limit, Order: parseOrder(DefaultOrder)}
				fetch := Fetch{By: ByQuery}
				first := report.FirstRows(p, fetch)
				needed := len(blocks)
				if ranked && limit <= firstGroup {
					needed = 1
				} else if ranked && n > NarrowSample {
					needed = 2
				}
				got, err := new(Decoder).Rows(bytes.NewReader(bytes.Join(blocks[:min(needed, len(blocks))], nil)), first)
				if err != nil {
					t.Fatalf("%d of %d rows, ranked %t: %v", limit, n, ranked, err)
				}
				if got.Len() != n || !got.HasFirst(first) || got.HasFirst(0) != (got.has() == n) || ranked && n > NarrowSample && got.HasFirst(0) {
					t.Errorf("%d of %d rows, ranked %t: %d rows, %d of them here", limit, n, ranked, got.Len(), got.has())
				}
				sent := func(rows *Rows) string {
					head, err := report.AppendHead(nil, p, []Fetch{fetch}, []*Rows{rows}, Origin{Source: SourceLive})
					if err != nil {
						t.Fatal(err)
					}
					return string(head)
				}
				if sent(got) != sent(rows) {
					t.Errorf("%d of %d rows, ranked %t: %s\nwant %s", limit, n, ranked, sent(got), sent(rows))
				}
			}
		}
	}
}

// What needs other rows than the first ones says so.
func TestFirstRows(t *testing.T) {
	usual := Params{Limit: 10, Order: parseOrder(DefaultOrder)}
	later, other := usual, usual
	later.Offset, other.Order = 10, parseOrder("-impressions")
	for _, test := range []struct {
		report Report
		p      Params
		fetch  Fetch
		want   int
		part   int
	}{
		{BreakdownReport(ByPage), usual, Fetch{Upstream: new(Query)}, 10, 10},
		{BreakdownReport(ByPage), usual, Fetch{Archive: make([]DateRange, 1)}, 10, 10},
		{BreakdownReport(ByPage), usual, Fetch{Upstream: new(Query), Archive: make([]DateRange, 1)}, 10, 0},
		{BreakdownReport(ByPage), usual, Fetch{Archive: make([]DateRange, 2)}, 10, 0},
		{BreakdownReport(ByPage), later, Fetch{Archive: make([]DateRange, 1)}, 0, 0},
		{BreakdownReport(ByPage), other, Fetch{Upstream: new(Query)}, 0, 0},
		{BreakdownReport(ByDevice), usual, Fetch{Upstream: new(Query), cut: new(cut)}, 0, 0},
		{MoversReport(ByPage), usual, Fetch{Upstream: new(Query)}, 0, 0},
		{SummaryReport(), usual, Fetch{Upstream: new(Query)}, 0, 0},
		{TimeseriesReport(), usual, Fetch{Upstream: new(Query)}, 0, 0},
	} {
		if got, part := test.report.FirstRows(&test.p, test.fetch), test.report.FirstOfPart(&test.p, test.fetch); got != test.want || part != test.part {
			t.Errorf("%+v: %d rows, and %d of each part", test, got, part)
		}
	}
}

// fields encodes integers as varints, floats as their bytes, and strings raw.
func fields(values []any) (data []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case int:
			data = binary.AppendUvarint(data, uint64(v))
		case float64:
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		case string:
			data = append(data, v...)
		}
	}
	return data
}

// Unused capacity is bounded, whatever the size of the body was.
func TestRowsWasteNoMemory(t *testing.T) {
	f := func(name string, body []byte) {
		t.Helper()
		rows, err := readRows(body, ByQuery)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := decodeRows(encoded(rows))
		if err != nil {
			t.Fatal(err)
		}
		least := rows.Len() * (8 + 32)
		for i := range rows.Len() {
			least += len(rows.Key(i))
		}
		if size := rows.Size(); size < least || size > least*4/3+200 {
			t.Errorf("%s: %d bytes for %d of rows", name, size, least)
		}
		if size := parsed.Size(); size < least || size > least+200 {
			t.Errorf("%s, parsed: %d bytes for %d of rows", name, size, least)
		}
	}
	f("compact", upstreamBody(5000))
	var indented bytes.Buffer
	if err := json.Indent(&indented, upstreamBody(5000), "", "  "); err != nil {
		t.Fatal(err)
	}
	f("indented", indented.Bytes())
	f("short keys", []byte(`{"rows":[`+strings.Repeat(`{"keys":["a"],"clicks":1,"impressions":1},`, 999)+`{"keys":["a"],"clicks":1,"impressions":1}]}`))
	f("mostly something else", append(append([]byte(`{"rows":[],"x":"`), bytes.Repeat([]byte("x"), 1<<19)...), `"}`...))
}

// The range of the series may have more days than there are rows.
func TestSeriesOfDecodedRowsEqualsSeriesOfBody(t *testing.T) {
	r := DateRange{Start: day("2026-02-26"), End: day("2026-03-02")}
	body := seriesBody(seriesRow("2026-02-27", 1, 4, "2.5"), seriesRow("2026-03-02", 2, 8, "3"))
	read, err := readRows(body, ByDate)
	if err != nil {
		t.Fatal(err)
	}
	want, err := SeriesOf(read, r)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := decodeRows(encoded(read))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SeriesOf(rows, r); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := SeriesOf(rows, DateRange{Start: r.Start, End: r.End - 1}); err == nil {
		t.Errorf("a day outside the range was taken into %v", got)
	}
}

// Rows survive a round trip.
func FuzzEncode(f *testing.F) {
	for _, body := range []string{`{"rows":[]}`, string(upstreamBody(2)), oneRow(`\ud83d\ude00`, "12.0", "1.2E1", "9.8E-4", "1"),
		oneRow("a\xff", "1", "0", "0.5", "8.416666666666668")} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := readRows(body, ByQuery)
		if err != nil {
			return
		}
		if again, err := decodeRows(encoded(rows)); err != nil || !equalRows(again, rows) {
			t.Fatalf("%q came back otherwise: %v", body, err)
		}
	})
}

// A Decoder returns only Rows that ReadRows could return, with memory in proportion to the data.
func FuzzDecodeRows(f *testing.F) {
	for _, n := range []int{0, 1, 3, 100} {
		f.Add(encoded(searchRows(f, n)), uint16(n/2))
	}
	f.Add(encoded(new(Merger).Merge(ByQuery, 0, searchRows(f, 300), new(Rows))), uint16(9))
	for _, body := range []string{oneRow("\u00e9", "1", "3", "0.3", "0.5"), oneRow("", "0", "0", "1", "2"),
		oneRow("k", "9007199254740992", "1", "0", "2147483647")} {
		rows, err := readRows([]byte(body), ByQuery)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded(rows), uint16(1))
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		rows, err := decodeRows(data)
		if err != nil {
			return
		}
		if size := rows.Size(); size > 100+10*len(data) {
			t.Fatalf("%d bytes became %d", len(data), size)
		}
		again, err := decodeRows(encoded(rows))
		if err != nil || !equalRows(again, rows) {
			t.Fatalf("%x came back otherwise: %v", data, err)
		}
		page := &Params{Limit: 1 + int(limit)%maxDimensionLimit, Order: parseOrder(DefaultOrder)}
		first, err := new(Decoder).Rows(bytes.NewReader(data), page.Limit)
		if err != nil {
			t.Fatalf("%x: all rows were decoded, but not the first ones: %v", data, err)
		}
		if got, want := breakdownHead(nil, page, ByQuery, first, Origin{}), breakdownHead(nil, page, ByQuery, rows, Origin{}); !bytes.Equal(got, want) {
			t.Fatalf("%x: the first rows say %s, all %s", data, got, want)
		}
		checkAnswer(t, breakdownHead(nil, &Params{Limit: 1000, Order: parseOrder("key")}, ByQuery, rows, Origin{Source: SourceLive}))
	})
}

// BenchmarkCodec reports the bytes a row in memory, encoded, and compressed.
func BenchmarkCodec(b *testing.B) {
	for _, n := range []int{1_000, 25_000} {
		rows := new(Merger).Merge(ByQuery, 0, searchRows(b, n), new(Rows)) // which ranks them
		plain := encoded(rows)
		packed := s2.Encode(nil, plain)
		run := func(name string, work func() error) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := work(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(rows.Size()), "B-memory")
				b.ReportMetric(float64(len(plain)), "B-plain")
				b.ReportMetric(float64(len(packed)), "B-packed")
			})
		}
		buffer := make([]byte, 2*len(plain))
		run("encode", func() error { return rows.Encode(bufio.NewWriter(io.Discard)) })
		var decoder Decoder
		run("decode", func() error { _, err := decoder.Rows(bytes.NewReader(plain), 0); return err })
		run("decode first", func() error { _, err := decoder.Rows(bytes.NewReader(plain), firstGroup); return err })
		run("pack", func() error { s2.Encode(buffer, plain); return nil })
		run("unpack", func() error { _, err := s2.Decode(buffer, packed); return err })
	}
}
