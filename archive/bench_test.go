package archive

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"sara/archive/bucket"
	"sara/translate"
)

// benchHistory archives months of a busy property: for every day, 100 of about 2,000 queries, 100 of about 500 pages, 60 countries, 3
// devices and the total.
func benchHistory(b *testing.B, months int) (bucket.Bucket, translate.DateRange) {
	b.Helper()
	store, err := bucket.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: store})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	r := translate.DateRange{Start: translate.NewDate(2023, 1, 1)}
	r.End = r.Start.AddMonths(months) - 1
	for first := r.Start; first <= r.End; first = first.AddMonths(1) {
		var days []Day
		for date := first; date < first.AddMonths(1); date++ {
			for _, by := range Dimensions() {
				days = append(days, Day{Date: date, Dimension: by, Rows: benchRows(random, by), Final: true})
			}
		}
		if err := h.Merge(b.Context(), testProperty, days); err != nil {
			b.Fatal(err)
		}
	}
	return store, r
}

func benchRows(random *rand.Rand, by translate.Dimension) *translate.Rows {
	rows, keys, key := 100, 2000, "how to choose running shoes %d for beginners"
	switch by {
	case translate.ByPage:
		keys, key = 500, "https://www.example.com/guides/running-shoes/%d?lang=en"
	case translate.ByCountry:
		rows, keys, key = 60, 200, "c%02x"
	case translate.ByDevice:
		rows, keys, key = 3, 3, "DEVICE%d"
	case translate.ByDate:
		rows, keys, key = 1, 1, "%d"
	}
	var b translate.RowsBuilder
	seen := make(map[int]bool)
	for len(seen) < rows {
		k := int(float64(keys) * random.Float64() * random.Float64())
		if seen[k] {
			continue
		}
		seen[k] = true
		clicks := random.Int64N(int64(20_000/(k+1) + 10))
		b.Add(fmt.Appendf(nil, key, k), translate.Metrics{
			Clicks:      clicks,
			Impressions: clicks*20 + random.Int64N(1000) + 1,
			Position:    1 + 30*random.Float64(),
		})
	}
	return b.Rows()
}

func BenchmarkRead(b *testing.B) {
	for _, months := range []int{12, 36} {
		store, r := benchHistory(b, months)
		entries, err := store.List(b.Context(), "")
		if err != nil {
			b.Fatal(err)
		}
		var size int64
		for _, e := range entries {
			size += e.Size
		}
		read := func(b *testing.B, h *History, by translate.Dimension) {
			result, err := h.Read(b.Context(), testProperty, by, r, 0)
			if err != nil || result.Rows.Len() == 0 || len(result.Missing) > 0 {
				b.Fatalf("%+v, %v", result, err)
			}
		}
		fresh := func(b *testing.B) *History {
			h, err := NewHistory(HistoryConfig{Bucket: store})
			if err != nil {
				b.Fatal(err)
			}
			return h
		}
		for _, by := range []translate.Dimension{translate.ByQuery, translate.ByDate} {
			b.Run(fmt.Sprintf("months=%d/%s/cold", months, DimensionName(by)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					read(b, fresh(b), by)
				}
				b.ReportMetric(float64(size)/float64(months), "B/month")
			})
			b.Run(fmt.Sprintf("months=%d/%s/warm", months, DimensionName(by)), func(b *testing.B) {
				b.ReportAllocs()
				h := fresh(b)
				read(b, h, by)
				for b.Loop() {
					read(b, h, by)
				}
			})
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	store, err := bucket.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: store})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	date := translate.NewDate(2023, 1, 1)
	for b.Loop() { // one day after the other
		var days []Day
		for _, by := range Dimensions() {
			days = append(days, Day{Date: date, Dimension: by, Rows: benchRows(random, by), Final: true})
		}
		if err := h.Merge(b.Context(), testProperty, days); err != nil {
			b.Fatal(err)
		}
		date++
	}
}

// An export of a year, with 264 rows a day.
func BenchmarkReadRecords(b *testing.B) {
	store, r := benchHistory(b, 12)
	h, err := NewHistory(HistoryConfig{Bucket: store})
	if err != nil {
		b.Fatal(err)
	}
	for _, format := range []Format{CSV, JSONL, Parquet} {
		var file bytes.Buffer
		if err := WriteRecords(&file, format, h.Export(b.Context(), testProperty, r)); err != nil {
			b.Fatal(err)
		}
		b.Run(string(format), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range ReadRecords(bytes.NewReader(file.Bytes()), int64(file.Len()), format) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
