package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sara/translate"
)

// A Record is one archived row as it is exported and imported. Dimension is ByDate for the day's total, whose key is empty.
type Record struct {
	Date                translate.Date
	Dimension           translate.Dimension
	Key                 string
	Clicks, Impressions int64
	Position            float64
}

// A Format is a way to write records in a file, with the columns date (YYYY-MM-DD), dimension (query, page, country, device
// or total), key, clicks, impressions and position.
type Format string

// The formats. A CSV file starts with the names of the columns, in that order; a JSONL file has one object a line, with its
// members in any order; in a Parquet file date is of type DATE and the columns may be in any order.
const (
	CSV     Format = "csv"
	JSONL   Format = "jsonl"
	Parquet Format = "parquet"
)

// ParseFormat returns the format of that name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case CSV, JSONL, Parquet:
		return f, nil
	}
	return "", fmt.Errorf("%.40q is none of csv, jsonl, parquet", name)
}

// columnNames returns the names of the columns, in their order.
func columnNames() [6]string {
	return [...]string{"date", "dimension", "key", "clicks", "impressions", "position"}
}

// Bounds of what is read.
const (
	longestLine = 1 << 20   // of a CSV record or a line of JSONL, in bytes
	mostRecords = 5_000_000 // of one import: more than ten years of a property
)

// WriteRecords writes records until they end, or until the first that comes with an error.
func WriteRecords(w io.Writer, f Format, records iter.Seq2[Record, error]) error {
	var err error
	switch f {
	case CSV:
		err = writeCSV(w, records)
	case JSONL:
		err = writeJSONL(w, records)
	case Parquet:
		err = writeParquet(w, records)
	default:
		_, err = ParseFormat(string(f))
	}
	if err != nil {
		return fmt.Errorf("write records as %s: %w", f, err)
	}
	return nil
}

// ReadRecords reads the records of a file of size bytes. The first error ends them: a *RowError when a row is at fault.
func ReadRecords(file io.ReaderAt, size int64, f Format) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var err error
		switch f {
		case CSV:
			err = readCSV(io.NewSectionReader(file, 0, size), yield)
		case JSONL:
			err = readJSONL(io.NewSectionReader(file, 0, size), yield)
		case Parquet:
			err = readParquet(file, size, yield)
		default:
			_, err = ParseFormat(string(f))
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Record{}, err)
		}
	}
}

// errStopped tells that the reader of the records wants no more.
var errStopped = errors.New("stopped")

// RowError tells which row of a file cannot be a record. Its text may be shown to the user.
type RowError struct {
	Row    int    // from 1, without the header
	Column string // empty when the row as a whole is at fault
	Reason string
}

func (e *RowError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("row %d: %s", e.Row, e.Reason)
	}
	return fmt.Sprintf("row %d, column %s: %s", e.Row, e.Column, e.Reason)
}

func rowError(row int, column, format string, values ...any) error {
	return &RowError{Row: row, Column: column, Reason: fmt.Sprintf(format, values...)}
}

// parseRecord makes a record of the text of its columns, in the order of columnNames.
func parseRecord(row int, columns [6]string) (Record, error) {
	var r Record
	var err error
	names := columnNames()
	if r.Date, err = translate.ParseDate(columns[0]); err != nil {
		return r, rowError(row, names[0], "%v", err)
	}
	var ok bool
	if r.Dimension, ok = parseDimension(columns[1]); !ok {
		return r, rowError(row, names[1], "%.40q is none of query, page, country, device, total", columns[1])
	}
	r.Key = columns[2]
	if r.Clicks, ok = parseCount(columns[3]); !ok {
		return r, rowError(row, names[3], "%.40q %s", columns[3], notACount)
	}
	if r.Impressions, ok = parseCount(columns[4]); !ok {
		return r, rowError(row, names[4], "%.40q %s", columns[4], notACount)
	}
	if r.Position, ok = parseNumber(columns[5]); !ok {
		return r, rowError(row, names[5], "%.40q is not a number", columns[5])
	}
	return r, nil
}

const notACount = "is not a whole number from 0 to 2^53"

// parseCount reads a whole number, which other programs write with a fraction or an exponent at times.
func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, ok := parseNumber(text)
		if !ok {
			return 0, false
		}
		return wholeNumber(f)
	}
	return n, text[0] != '+' && n >= 0 && n <= 1<<53
}

func wholeNumber(f float64) (int64, bool) {
	if f != math.Trunc(f) || !(f >= 0 && f <= 1<<53) {
		return 0, false
	}
	return int64(f), true
}

// parseNumber reads a decimal number as JSON writes it, though with leading zeros, and without a digit before or after the
// point, if need be.
func parseNumber(text string) (float64, bool) {
	if strings.Trim(text, "0123456789.eE+-") != "" || strings.HasPrefix(text, "+") {
		return 0, false // infinities, hexadecimal numbers
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// check refuses records that no upstream answer could hold.
func (r *Record) check(row int, until translate.Date) error {
	names := columnNames()
	switch {
	case r.Date > until:
		return rowError(row, names[0], "%s is after %s, the last day that there are figures of", r.Date, until)
	case r.Dimension == translate.ByDate && r.Key != "":
		return rowError(row, names[2], "%.80q: a total has no key", r.Key)
	case r.Dimension != translate.ByDate && r.Key == "":
		return rowError(row, names[2], "it is empty, which only a total's is")
	case r.Dimension == translate.ByCountry && !isCountry(r.Key):
		return rowError(row, names[2], "%.80q is not the three lower-case letters of a country, such as deu", r.Key)
	case r.Dimension == translate.ByDevice && !slices.Contains([]string{"DESKTOP", "MOBILE", "TABLET"}, r.Key):
		return rowError(row, names[2], "%.80q is none of the devices DESKTOP, MOBILE and TABLET", r.Key)
	case len(r.Key) > longestKey || !utf8.ValidString(r.Key):
		return rowError(row, names[2], "it is not UTF-8 text of at most %d bytes", longestKey)
	case r.Impressions < r.Clicks:
		return rowError(row, names[4], "%d impressions are fewer than %d clicks", r.Impressions, r.Clicks)
	case r.Impressions > 0 && !(r.Position >= 1 && r.Position <= math.MaxInt32):
		return rowError(row, names[5], "%v: positions count from 1", r.Position)
	case r.Impressions == 0 && r.Position != 0:
		return rowError(row, names[5], "%v: without impressions there is no position but 0", r.Position)
	}
	return nil
}

// isCountry reports whether a key is as the upstream and the API write countries (spec: What the service does, 7).
func isCountry(key string) bool {
	return len(key) == 3 && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz") == ""
}
