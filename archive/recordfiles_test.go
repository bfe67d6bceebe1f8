package archive

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"sara/translate"
)

func TestReadRecordsRefusesInvalidFiles(t *testing.T) {
	refuse := func(f Format, want, file string) {
		t.Helper()
		for _, err := range ReadRecords(strings.NewReader(file), int64(len(file)), f) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %.80q: %v, want %q", f, file, err, want)
			}
			return
		}
		t.Errorf("%s %.80q is an empty file", f, file)
	}
	refuse(CSV, "the file is empty: it must start with the line date,dimension", "")
	refuse(CSV, `column 4 of the header is "impressions", not "clicks"`, "date,dimension,key,impressions,clicks,position\n")
	refuse(CSV, "the header has 1 column:", "2026-05-01\n")
	refuse(JSONL, "line 1: it is not a JSON object", "[1]")
	refuse(JSONL, "line 1: it is not a JSON object", `{"date":`)
	refuse(JSONL, `line 1: "Clicks" is not a column`, `{"Clicks":1}`)
	refuse(JSONL, "line 1, column clicks: it is given twice", `{"clicks":1,"clicks":1}`)
	refuse(JSONL, `line 1, column clicks: "1" is not a number`, `{"clicks":"1"}`)
	refuse(JSONL, "line 1, column key: null is not a string", `{"key":null}`)
	refuse(JSONL, "line 1, column position: it is missing",
		`{"date":"2026-05-01","dimension":"total","key":"","clicks":1,"impressions":2}`)
	refuse(JSONL, "line 1: it is longer than 1048576 bytes", `{"key":"`+strings.Repeat("x", 2<<20))
	refuse(Parquet, "not a Parquet file: it has only 0 bytes", "")
	refuse(Parquet, "not a Parquet file", "PAR1 and nothing else PAR1")
	refuse(Parquet, "not a Parquet file: its footer would have 4294967295 bytes, but the file has 12",
		"PAR1\xff\xff\xff\xffPAR1") // not 4 GiB of memory
	refuse(Parquet, "a list in it would have 2147483647 elements",
		"PAR1\x15\x02\x19\xfc\xff\xff\xff\xff\x07\x00\x0a\x00\x00\x00PAR1") // a schema of so many columns
	refuse("xml", `"xml" is not csv, jsonl or parquet`, "")
}

func TestReadRecordsAcceptsVariants(t *testing.T) {
	want := []Record{{Date: day(t, "2026-05-01"), Dimension: translate.ByQuery, Key: "a", Clicks: 12, Impressions: 120, Position: 3}}
	accept := func(f Format, file string) {
		t.Helper()
		if got := collect(t, readRecords(file, f)); !slices.Equal(got, want) {
			t.Errorf("%q: %v", file, got)
		}
	}
	accept(CSV, "\ufeffdate,dimension,key,clicks,impressions,position\r\n2026-05-01,query,a,12.0,1.2E2,3.0\r\n\r\n")
	accept(CSV, "\"date\",\"dimension\",\"key\",\"clicks\",\"impressions\",\"position\"\n\"2026-05-01\",\"query\",\"a\",\"12\",\"120\",\"3\"")
	accept(JSONL,
		"\n{\"position\":3.0, \"key\":\"\\u0061\", \"clicks\":12.0,\"impressions\":1.2e2,\"date\":\"2026-05-01\",\"dimension\":\"query\"}\r\n\n")
}

// A spreadsheet that opens an export must not run a search term. Numbers stay numbers, and an import undoes the guard.
func TestCSVGuardsFormulas(t *testing.T) {
	record := func(key string) Record {
		return Record{Date: day(t, "2026-05-01"), Dimension: translate.ByQuery, Key: key, Clicks: 12, Impressions: 120, Position: 3.5}
	}
	f := func(key, cell string) {
		t.Helper()
		want := []Record{record(key)}
		var file bytes.Buffer
		if err := WriteRecords(&file, CSV, recordsOf(want)); err != nil {
			t.Fatal(err)
		}
		if line := csvHeader + "2026-05-01,query," + cell + ",12,120,3.5\n"; file.String() != line {
			t.Errorf("%q is written as %q, want %q", key, file.String(), line)
		}
		if got := collect(t, readRecords(file.String(), CSV)); !slices.Equal(got, want) {
			t.Errorf("%q is read as %v", key, got)
		}
	}
	f(`=HYPERLINK("https://evil.example")`, `"'=HYPERLINK(""https://evil.example"")"`)
	f("+1", "'+1")
	f("-1", "'-1")
	f("@SUM(A1)", "'@SUM(A1)")
	f("\t=1", "'\t=1")
	f("\r=1", "\"'\r=1\"")
	f("\n=1", "\"'\n=1\"")
	f("＝1", "'＝1")
	f("＋1", "'＋1")
	f("－1", "'－1")
	f("＠SUM(A1)", "'＠SUM(A1)")
	f("'=1", "''=1")
	f("'＝1", "''＝1")
	f("''-1", "'''-1")
	f("'90s shoes", "'90s shoes")
	f("1-1=0", "1-1=0")
	f("１－１＝０", "１－１＝０")
	f("\u00bd", "\u00bd")
	for _, f := range []Format{JSONL, Parquet} {
		var file bytes.Buffer
		if err := WriteRecords(&file, f, recordsOf([]Record{record("=1")})); err != nil || strings.Contains(file.String(), "'=") {
			t.Errorf("%s is guarded: %v", f, err)
		}
	}
	if got := collect(t, readRecords(csvHeader+"2026-05-01,query,-1,12,120,3.5\n", CSV)); !slices.Equal(got, []Record{record("-1")}) {
		t.Errorf("what another program has not guarded is read as %v", got)
	}
}

func TestWriteRecordsEndsAtAnError(t *testing.T) {
	fault := errors.New("the month is torn")
	records := func(yield func(Record, error) bool) { yield(Record{}, fault) }
	for _, f := range []Format{CSV, JSONL, Parquet} {
		if err := WriteRecords(new(bytes.Buffer), f, records); !errors.Is(err, fault) {
			t.Errorf("%s: %v", f, err)
		}
	}
}
