package archive

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sara/translate"
)

// parquetWith returns a file with one row, in which one column has the given type.
func parquetWith(t *testing.T, column string, node parquet.Node, value parquet.Value) []byte {
	t.Helper()
	columns := parquet.Group{"date": parquet.Date(), "dimension": parquet.String(), "key": parquet.String(),
		"clicks": parquet.Decimal(0, 18, parquet.Int64Type), "impressions": parquet.Int(64), "position": parquet.Leaf(parquet.DoubleType)}
	values := map[string]parquet.Value{"date": parquet.Int32Value(20_000), "dimension": parquet.ByteArrayValue([]byte("query")),
		"key": parquet.ByteArrayValue([]byte("12")), "clicks": parquet.Int64Value(12), "impressions": parquet.Int64Value(120),
		"position": parquet.DoubleValue(3)}
	columns[column], values[column] = node, value
	schema := parquet.NewSchema("row", columns)
	var file bytes.Buffer
	out := parquet.NewWriter(&file, schema)
	row := make(parquet.Row, 0, len(values))
	for i, field := range schema.Fields() {
		definition := 0
		if field.Optional() && !values[field.Name()].IsNull() {
			definition = 1
		}
		row = append(row, values[field.Name()].Level(0, definition, i))
	}
	if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A column may have any type that can hold the values of records; a whole number as a date counts days, like Parquet's own type. No type is
// misread: not a decimal of 3.5, which is stored as 35 and a scale, nor a number that counts something else as a day, nor one as a text.
func TestTypesOfParquetColumns(t *testing.T) {
	read := func(records iter.Seq2[FileRecord, error]) (all []Record, err error) {
		for r, err := range records {
			if err != nil {
				return nil, err
			}
			all = append(all, r.Record)
		}
		return all, nil
	}
	want := []Record{{Date: 20_000, Dimension: translate.ByQuery, Key: "12", Clicks: 12, Impressions: 120, Position: 3}}
	text := parquet.ByteArrayValue
	for name, test := range map[string]struct {
		column  string
		node    parquet.Node
		value   parquet.Value
		refused string // by both readers
	}{
		"a double":                        {"position", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(3), ""},
		"a float":                         {"position", parquet.Leaf(parquet.FloatType), parquet.FloatValue(3), ""},
		"a whole position":                {"position", parquet.Int(64), parquet.Int64Value(3), ""},
		"a short whole number":            {"clicks", parquet.Int(32), parquet.Int32Value(12), ""},
		"a whole number as a double":      {"clicks", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(12), ""},
		"a whole number that may be null": {"clicks", parquet.Optional(parquet.Int(64)), parquet.Int64Value(12), ""},
		"a whole number that is null":     {"clicks", parquet.Optional(parquet.Int(64)), parquet.NullValue(), "column clicks"},
		"half a click":                    {"clicks", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(12.5), "column clicks"},
		"a truth value":                   {"clicks", parquet.Leaf(parquet.BooleanType), parquet.BooleanValue(true), "column clicks"},
		"a day as text":                   {"date", parquet.String(), text([]byte("2024-10-04")), ""},
		"a decimal without a fraction":    {"position", parquet.Decimal(0, 9, parquet.Int32Type), parquet.Int32Value(3), ""},
		"a decimal with a fraction": {"position", parquet.Decimal(1, 9, parquet.Int32Type), parquet.Int32Value(35),
			"column position is a decimal with a fraction"},
		"a large decimal with a fraction": {"position", parquet.Decimal(2, 18, parquet.Int64Type), parquet.Int64Value(350),
			"column position is a decimal with a fraction"},
		"a decimal in bytes that are digits": {"clicks", parquet.Decimal(0, 9, parquet.ByteArrayType), text([]byte("12")),
			"column clicks is a decimal in bytes"},
		"a day as a number":      {"date", parquet.Int(32), parquet.Int32Value(20_000), ""},
		"a day as a long number": {"date", parquet.Int(64), parquet.Int64Value(20_000), ""},
		"digits as a day":        {"date", parquet.Int(32), parquet.Int32Value(2024_10_04), "column date"},
		"seconds as a day":       {"date", parquet.Int(64), parquet.Int64Value(20_000 * 86_400), "column date"},
		"a day as a double":      {"date", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(20_000), "column date"},
		"a moment":               {"date", parquet.Timestamp(parquet.Millisecond), parquet.Int64Value(20_000 * 86_400_000), "column date"},
		"a moment whose number could be one of days": {"date", parquet.Timestamp(parquet.Millisecond), parquet.Int64Value(20_000),
			"column date is of type TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)"},
		"a time of day as a day": {"date", parquet.Time(parquet.Millisecond), parquet.Int32Value(20_000),
			"column date is of type TIME(isAdjustedToUTC=true,unit=MILLIS)"},
		"a decimal as a day": {"date", parquet.Decimal(0, 9, parquet.Int32Type), parquet.Int32Value(20_000),
			"column date: 20000 of type DECIMAL is not a day"},
		"a key as a number":       {"key", parquet.Int(64), parquet.Int64Value(12), "column key"},
		"a dimension as a number": {"dimension", parquet.Int(64), parquet.Int64Value(1), "column dimension"},
		"key nested":              {"key", parquet.Repeated(parquet.String()), text([]byte("12")), "column key is nested or repeated"},
	} {
		data := parquetWith(t, test.column, test.node, test.value)
		path := filepath.Join(t.TempDir(), "records.parquet")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for source, records := range map[string]iter.Seq2[FileRecord, error]{
			"a file": ReadRecords(bytes.NewReader(data), int64(len(data)), Parquet), "shards": ReadShards([]string{path}),
		} {
			got, err := read(records)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("%s, of %s: %v, %v", name, source, got, err)
				}
			} else if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, of %s: %v, %v", name, source, got, err)
			}
		}
	}
}
