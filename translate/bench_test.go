package translate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// upstreamBody returns an upstream body of n rows by query. Some keys have escapes.
func upstreamBody(n int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	body := []byte(`{"rows":[`)
	for i := range n {
		if i > 0 {
			body = append(body, ',')
		}
		key := fmt.Sprintf("how to choose running shoes for winter %d", i)
		if i%3 == 0 {
			key = fmt.Sprintf(`caf\u00e9 \"%d\" münchen`, i)
		}
		impressions := 10 + random.IntN(10_000)
		clicks := (n - i) % (impressions + 1)
		body = fmt.Appendf(body, `{"keys":["%s"],"clicks":%d,"impressions":%d,"ctr":%.17g,"position":%.17g}`,
			key, clicks, impressions, float64(clicks)/float64(impressions), 1+20*random.Float64())
	}
	return append(body, `],"responseAggregationType":"byProperty"}`...)
}

// BenchmarkEnvelope turns an upstream body into a response.
func BenchmarkEnvelope(b *testing.B) {
	for _, n := range []int{1_000, 25_000} {
		for _, order := range []string{"-clicks", "impressions"} {
			b.Run(fmt.Sprintf("%d%s", n, order), func(b *testing.B) {
				body := upstreamBody(n)
				params := &Params{Limit: 1000, Order: parseOrder(order), Period: Period{Preset: "last_28d"}}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					rows, err := ReadRows(bytes.NewReader(body), ByQuery)
					if err != nil {
						b.Fatal(err)
					}
					breakdownHead(nil, params, ByQuery, rows, Origin{Source: SourceLive})
				}
			})
		}
	}
}

// BenchmarkTable writes the 25 pages of a full sample: with a ranking that is made once, as the cache keeps it, and with one for each page.
func BenchmarkTable(b *testing.B) {
	rows, err := ReadRows(bytes.NewReader(upstreamBody(WideSample)), ByQuery)
	if err != nil {
		b.Fatal(err)
	}
	const limit = 1000
	for _, order := range []string{"-clicks", "impressions", "key"} {
		pages := func(b *testing.B, ranked func() *Rows) {
			b.ReportAllocs()
			for b.Loop() {
				table := ranked()
				for offset := limit; offset < WideSample; offset += limit {
					breakdownHead(nil, &Params{Limit: limit, Offset: offset, Order: parseOrder(order)}, ByQuery, table, Origin{})
				}
			}
		}
		b.Run(order+"/kept", func(b *testing.B) {
			pages(b, func() *Rows { return rows.Ranked(rows.Rank(parseOrder(order))) })
		})
		b.Run(order+"/each", func(b *testing.B) { pages(b, func() *Rows { return rows }) })
		b.Run(order+"/rank", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rows.Rank(parseOrder(order))
			}
		})
	}
}

// BenchmarkMerge adds up the rows of the live window and of the archive, which share some of their keys: for their first page, and for all.
func BenchmarkMerge(b *testing.B) {
	var m Merger
	parts := []Part{searchRows(b, 1000), searchRows(b, 400)}
	for _, first := range []int{62, 0} {
		b.Run(strconv.Itoa(first), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Merge(ByQuery, first, parts...)
			}
		})
	}
}

// BenchmarkBrandExpansion expands the brand filter with twenty terms.
func BenchmarkBrandExpansion(b *testing.B) {
	var segments Segments
	for i := range 20 {
		segments.BrandTerms = append(segments.BrandTerms, BrandTerm{Term: fmt.Sprintf("acme shop %d", i), MatchType: "contains"})
	}
	filters := []Filter{{Dimension: "brand", Operator: "equals", Value: "brand"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Conditions(filters, segments); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuery builds the cache key of a lookup, and the body of an upstream call.
func BenchmarkQuery(b *testing.B) {
	q := SampleQuery("s", ByQuery, DateRange{20_000, 20_027}, []Condition{{"query", "contains", "shoes"}}, parseOrder(DefaultOrder), 1)
	b.Run("key", func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, 1024)
		for b.Loop() {
			dst = q.AppendKey(dst[:0])
		}
	})
	b.Run("body", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q.Body()
		}
	})
}

// BenchmarkPage is the first page of a copy in Redis: it decodes the rows, and writes those of the page.
func BenchmarkPage(b *testing.B) {
	data := encoded(new(Merger).Merge(ByQuery, 0, searchRows(b, 400), new(Rows))) // ranked
	var decoder Decoder
	var in bytes.Reader
	const limit = 62
	params := &Params{Limit: limit, Order: parseOrder(DefaultOrder), Period: Period{Preset: "last_28d"}}
	decode := func() *Rows {
		in.Reset(data)
		rows, err := decoder.Rows(&in, limit)
		if err != nil {
			b.Fatal(err)
		}
		return rows
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decode()
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		rows := decode()
		var head Head
		for b.Loop() {
			head = breakdownHead(head[:0], params, ByQuery, rows, Origin{Source: SourceLive})
		}
	})
}
