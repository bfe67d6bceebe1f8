package archive

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// parquetWithPosition returns a file with one row, whose column position is of some type.
func parquetWithPosition(t *testing.T, position parquet.Node, value parquet.Value) []byte {
	t.Helper()
	schema := parquet.NewSchema("row", parquet.Group{"date": parquet.Date(), "dimension": parquet.String(), "key": parquet.String(),
		"clicks": parquet.Decimal(0, 18, parquet.Int64Type), "impressions": parquet.Int(64), "position": position})
	var file bytes.Buffer
	out := parquet.NewWriter(&file, schema)
	values := map[string]parquet.Value{"date": parquet.Int32Value(20_000), "dimension": parquet.ByteArrayValue([]byte("query")),
		"key": parquet.ByteArrayValue([]byte("a")), "clicks": parquet.Int64Value(12), "impressions": parquet.Int64Value(120), "position": value}
	row := make(parquet.Row, 0, len(values))
	for i, field := range schema.Fields() {
		row = append(row, values[field.Name()].Level(0, 0, i))
	}
	if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A decimal of 3.5 is stored as 35 and a scale. It is refused, not read as 35; a decimal without a fraction is a whole number.
func TestParquetDecimalsAreNotReadWithoutTheirScale(t *testing.T) {
	read := func(records iter.Seq2[FileRecord, error]) (all []Record, err error) {
		for r, err := range records {
			if err != nil {
				return nil, err
			}
			all = append(all, r.Record)
		}
		return all, nil
	}
	for name, test := range map[string]struct {
		position parquet.Node
		value    parquet.Value
		refused  bool
	}{
		"a double":                        {parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(3), false},
		"a decimal without a fraction":    {parquet.Decimal(0, 9, parquet.Int32Type), parquet.Int32Value(3), false},
		"a decimal with a fraction":       {parquet.Decimal(1, 9, parquet.Int32Type), parquet.Int32Value(35), true},
		"a large decimal with a fraction": {parquet.Decimal(2, 18, parquet.Int64Type), parquet.Int64Value(350), true},
	} {
		data := parquetWithPosition(t, test.position, test.value)
		path := filepath.Join(t.TempDir(), "records.parquet")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for source, records := range map[string]iter.Seq2[FileRecord, error]{
			"a file": ReadRecords(bytes.NewReader(data), int64(len(data)), Parquet), "shards": ReadShards([]string{path}),
		} {
			got, err := read(records)
			if test.refused {
				if err == nil || !strings.Contains(err.Error(), "column position is a decimal with a fraction") {
					t.Errorf("%s, of %s: %v, %v", name, source, got, err)
				}
			} else if err != nil || len(got) != 1 || got[0].Clicks != 12 || got[0].Impressions != 120 || got[0].Position != 3 {
				t.Errorf("%s, of %s: %v, %v", name, source, got, err)
			}
		}
	}
}
