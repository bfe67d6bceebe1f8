package translate

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// tableOf returns n rows as the upstream ranks them: by clicks, with ties in an order of its own. Few figures differ, so that there are
// many ties.
func tableOf(random *rand.Rand, n int) *Rows {
	metrics := make([]Metrics, n)
	for i := range metrics {
		m := &metrics[i]
		m.Impressions = int64(1 + random.IntN(50))
		m.Clicks = int64(random.IntN(min(8, int(m.Impressions)+1)))
		m.CTR, m.Position = m.quotient(), float64(random.IntN(9))/4
	}
	slices.SortFunc(metrics, func(a, b Metrics) int { return cmp.Compare(b.Clicks, a.Clicks) })
	var b RowsBuilder
	for i, name := range random.Perm(n) {
		b.Add(fmt.Appendf(nil, "key %d", name), metrics[i])
	}
	return b.Rows()
}

// naiveTable is the slow reference: the keys of all rows in an order, compared by one figure and then by key. In the upstream's order
// the rows of the narrow sample come first.
func naiveTable(rows *Rows, order string) []string {
	figure := func(i int) float64 {
		m := rows.Metrics(i)
		return map[string]float64{"clicks": float64(m.Clicks), "impressions": float64(m.Impressions), "ctr": m.CTR,
			"position": m.Position}[strings.TrimPrefix(order, "-")]
	}
	numbers := make([]int, rows.Len())
	for i := range numbers {
		numbers[i] = i
	}
	compare := func(i, j int) int {
		c := cmp.Compare(figure(i), figure(j))
		byKey := cmp.Compare(string(rows.Key(i)), string(rows.Key(j)))
		if order == "-key" {
			return -byKey
		}
		if strings.HasPrefix(order, "-") {
			c = -c
		}
		return cmp.Or(c, byKey)
	}
	if order == DefaultOrder {
		cut := min(len(numbers), NarrowSample)
		slices.SortFunc(numbers[:cut], compare)
		slices.SortFunc(numbers[cut:], compare)
	} else {
		slices.SortFunc(numbers, compare)
	}
	keys := make([]string, len(numbers))
	for i, n := range numbers {
		keys[i] = string(rows.Key(n))
	}
	return keys
}

// pageKeys returns the keys of a page, and its meta.
func pageKeys(p *Params, rows *Rows) (keys []string, meta gjson.Result) {
	envelope := gjson.ParseBytes(AppendTail(breakdownHead(nil, p, ByQuery, rows, Origin{Source: SourceLive}), "miss", "r"))
	for _, key := range envelope.Get("data.rows.#.key").Array() {
		keys = append(keys, key.String())
	}
	return keys, envelope.Get("meta")
}

// The pages of a table, one after the other, are the table: no row is missing and none there twice, in every order, of whichever of the
// two samples each page is, with a kept ranking or without.
func TestPagesAreTheTable(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	for _, n := range []int{0, 1, 1000, 1001, 1002, 2200} {
		rows := tableOf(random, n)
		for _, order := range Orders() {
			want := naiveTable(rows, order)
			kept := rows.Ranked(rows.Rank(parseOrder(order)))
			for _, limit := range []int{20 + random.IntN(200), 1000} {
				var all []string
				for offset := 0; offset <= n && offset < 40*limit; offset += limit {
					p := &Params{Limit: limit, Offset: offset, Order: parseOrder(order)}
					sample := []*Rows{rows, kept}[random.IntN(2)]
					if SampleQuery("", ByQuery, DateRange{}, nil, p.Order, offset+limit).RowLimit == NarrowSample {
						sample = sample.head([]int{NarrowSample, n}[random.IntN(2)])
					}
					keys, meta := pageKeys(p, sample)
					all = append(all, keys...)
					checkPageMeta(t, fmt.Sprintf("%d rows, %s, page at %d of %d", n, order, offset, limit), meta, n, p)
				}
				if !slices.Equal(all, want[:min(n, 40*limit)]) {
					t.Errorf("the pages of %d rows by %s, %d each, are not the table", n, order, limit)
				}
			}
		}
	}
}

// checkPageMeta checks the meta of a page of a table with n rows, all of which the wide sample has.
func checkPageMeta(t *testing.T, what string, meta gjson.Result, n int, p *Params) {
	t.Helper()
	more, offset, truncated := n > p.Offset+p.Limit, "", ""
	if p.Offset > 0 {
		offset = strconv.Itoa(p.Offset)
	}
	if more && p.Order.isUpstream() {
		truncated = "clicks"
	}
	if meta.Get("offset").Raw != offset || meta.Get("has_more").Bool() != more || meta.Get("truncated_by").String() != truncated ||
		meta.Get("row_count").Int() != int64(max(0, min(p.Limit, n-p.Offset))) || meta.Get("limit").Int() != int64(p.Limit) {
		t.Errorf("%s: meta is %s", what, meta.Raw)
	}
}

// A page without rows says that no page has more, even if rows fell off: a loop over the pages ends there.
func TestPagePastTheEnd(t *testing.T) {
	rows := tableOf(rand.New(rand.NewPCG(1, 1)), 300)
	for _, c := range []struct {
		offset    int
		truncated bool // days of the archive keep no more rows
		count     int
		more      bool
	}{{0, false, 100, true}, {200, false, 100, false}, {200, true, 100, true}, {299, true, 1, true}, {300, false, 0, false},
		{300, true, 0, false}, {24_999, true, 0, false}} {
		p := &Params{Limit: 100, Offset: c.offset, Order: parseOrder("key")}
		meta := gjson.ParseBytes(AppendTail(breakdownHead(nil, p, ByQuery, rows, Origin{Truncated: c.truncated}), "miss", "r")).Get("meta")
		if int(meta.Get("row_count").Int()) != c.count || meta.Get("has_more").Bool() != c.more ||
			(meta.Get("truncated_by").String() == "clicks") != c.truncated {
			t.Errorf("at %d, truncated %t: meta is %s", c.offset, c.truncated, meta.Raw)
		}
	}
}

// The narrow sample answers a page if its last row still shows whether more follow.
func TestSampleQueryOfPages(t *testing.T) {
	for first, want := range map[int]int{1: NarrowSample, 1000: NarrowSample, 1001: WideSample, 25_999: WideSample} {
		if got := SampleQuery("s", ByPage, DateRange{}, nil, parseOrder(DefaultOrder), first).RowLimit; got != want {
			t.Errorf("for %d rows it asks for %d, want %d", first, got, want)
		}
		if got := SampleQuery("s", ByCountry, DateRange{}, nil, parseOrder(DefaultOrder), first).RowLimit; got != NarrowSample {
			t.Errorf("for %d countries it asks for %d", first, got)
		}
	}
}

// FuzzRank checks a ranking against the slow reference, whose comparisons are of exact figures.
func FuzzRank(f *testing.F) {
	f.Add([]byte("some rows with figures, which come from these bytes"), uint8(3))
	f.Add(bytes.Repeat([]byte{0, 0xff, 0x7f}, 40), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, by uint8) {
		order := Orders()[int(by)%len(Orders())]
		var b RowsBuilder
		for i := 0; i+3 < len(data); i += 4 {
			m := Metrics{Clicks: int64(data[i]) << (data[i+3] % 40), Impressions: int64(data[i+1]) << (data[i+3] % 40),
				Position: 1 / (1 + float64(data[i+2])*1e-12)}
			m.CTR = float64(data[i+2]) / 255
			b.Add(strconv.AppendInt(nil, int64(data[i+3])*7919%1000<<16|int64(i), 36), m)
		}
		rows := b.Rows()
		ranking := rows.Rank(parseOrder(order))
		for place, want := range naiveTable(rows, order) {
			if got := string(rows.Key(ranking.row(place))); got != want {
				t.Fatalf("by %s, %q is at place %d, not %q", order, got, place, want)
			}
		}
	})
}
