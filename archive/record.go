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

// A Record is one archived row for export and import. The Dimension of a day's total is ByDate, and its Key is empty. So is that of the only
// record, of zeros, of a day that is archived under a dimension without rows.
type Record struct {
	Date                translate.Date
	Dimension           translate.Dimension
	Key                 string
	Clicks, Impressions int64
	Position            float64
}

// A Format is a file format for records. All have the columns date (YYYY-MM-DD), dimension (query, page, country, device or
// total), key, clicks, impressions and position.
type Format string

// The formats. A CSV file starts with the column names, in that order. A JSONL file has one object per line, with its members in
// any order. In a Parquet file, date is of type DATE and the columns may be in any order.
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
	return "", fmt.Errorf("%.40q is not csv, jsonl or parquet", name)
}

// The columns of a record, and of a stored row, in order. Those up to the key hold text.
const (
	dateColumn = iota
	dimensionColumn
	keyColumn
	clicksColumn
	impressionsColumn
	positionColumn
	columnCount
)

// columnNames returns the column names in order.
func columnNames() [columnCount]string {
	return [...]string{"date", "dimension", "key", "clicks", "impressions", "position"}
}

// Limits of an import.
const (
	longestLine = 1 << 20   // bytes of a CSV record or a JSONL line
	maxRecords  = 5_000_000 // more than ten years for one property
)

// WriteRecords writes records until the end or the first error.
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

// A Place is where a record of a file starts: the line of a text file, or the row of a Parquet file.
type Place struct {
	Number int // from 1; the header of a CSV file is a line
	IsRow  bool
	File   string // empty if there is only one
}

func (p Place) String() string {
	if p.File != "" {
		return p.File + ": " + Place{Number: p.Number, IsRow: p.IsRow}.String()
	}
	if p.IsRow {
		return fmt.Sprintf("row %d", p.Number)
	}
	return fmt.Sprintf("line %d", p.Number)
}

// A FileRecord is a record that was read from a file.
type FileRecord struct {
	Record
	Place Place
}

// ReadRecords reads the records of a file of size bytes. It ends at the first error, a *RecordError if a record is invalid.
func ReadRecords(file io.ReaderAt, size int64, f Format) iter.Seq2[FileRecord, error] {
	return func(yield func(FileRecord, error) bool) {
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
			yield(FileRecord{}, err)
		}
	}
}

// errStopped means that the consumer of the records has stopped iterating.
var errStopped = errors.New("stopped")

// A RecordError is an invalid record of a file. Its text is for the user.
type RecordError struct {
	Place  Place
	Column string // empty if the record as a whole is invalid
	Reason string
}

func (e *RecordError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("%s: %s", e.Place, e.Reason)
	}
	return fmt.Sprintf("%s, column %s: %s", e.Place, e.Column, e.Reason)
}

func recordError(at Place, column, format string, values ...any) error {
	return &RecordError{Place: at, Column: column, Reason: fmt.Sprintf(format, values...)}
}

// parseRecord parses the text of a record's columns, in the order of columnNames.
func parseRecord(at Place, columns [columnCount]string) (FileRecord, error) {
	r := FileRecord{Place: at}
	var err error
	names := columnNames()
	if r.Date, err = translate.ParseDate(columns[dateColumn]); err != nil {
		return r, recordError(at, names[dateColumn], "%v", err)
	}
	var ok bool
	if r.Dimension, ok = parseDimension(columns[dimensionColumn]); !ok {
		return r, recordError(at, names[dimensionColumn], "%.40q is not query, page, country, device or total", columns[dimensionColumn])
	}
	r.Key = columns[keyColumn]
	if r.Clicks, ok = parseCount(columns[clicksColumn]); !ok {
		return r, recordError(at, names[clicksColumn], "%.40q %s", columns[clicksColumn], notACount)
	}
	if r.Impressions, ok = parseCount(columns[impressionsColumn]); !ok {
		return r, recordError(at, names[impressionsColumn], "%.40q %s", columns[impressionsColumn], notACount)
	}
	if r.Position, ok = parseNumber(columns[positionColumn]); !ok {
		return r, recordError(at, names[positionColumn], "%.40q is not a number", columns[positionColumn])
	}
	return r, nil
}

const notACount = "is not a whole number from 0 to 2^53"

// parseCount parses a whole number. Other programs may write it with a fraction or an exponent, such as 12.0 or 1.2e1.
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

// parseNumber parses a decimal number. Unlike JSON, it allows leading zeros, and a decimal point without a digit before or after it.
func parseNumber(text string) (float64, bool) {
	if strings.Trim(text, "0123456789.eE+-") != "" || strings.HasPrefix(text, "+") {
		return 0, false // such as an infinity or a hexadecimal number
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// isNoRow reports whether the record shows that its day is archived under its dimension, perhaps without any row.
func (r *Record) isNoRow() bool {
	return r.Key == "" && r.Clicks == 0 && r.Impressions == 0 && r.Position == 0
}

// check refuses a record that no upstream answer could contain.
func (r *FileRecord) check(until translate.Date) error {
	names := columnNames()
	switch {
	case r.Date > until:
		return recordError(r.Place, names[dateColumn], "%s is after %s, the last day with figures", r.Date, until)
	case r.isNoRow():
	case r.Dimension == translate.ByDate && r.Key != "":
		return recordError(r.Place, names[keyColumn], "%.80q: a total must not have a key", r.Key)
	case r.Dimension != translate.ByDate && r.Key == "":
		return recordError(r.Place, names[keyColumn], "it is empty: only totals and rows of zeros have no key")
	case r.Dimension == translate.ByCountry && !translate.IsCountry(r.Key):
		return recordError(r.Place, names[keyColumn], "%.80q is not a country of three lower-case letters, such as deu", r.Key)
	case r.Dimension == translate.ByDevice && !slices.Contains(translate.Devices(), r.Key):
		return recordError(r.Place, names[keyColumn], "%.80q is not DESKTOP, MOBILE or TABLET", r.Key)
	case len(r.Key) > LongestKey || !utf8.ValidString(r.Key):
		return recordError(r.Place, names[keyColumn], "it must be UTF-8 text of at most %d bytes", LongestKey)
	case r.Impressions < r.Clicks:
		return recordError(r.Place, names[impressionsColumn], "%d is less than the clicks, %d", r.Impressions, r.Clicks)
	case r.Impressions > 0 && !(r.Position >= 1 && r.Position <= math.MaxInt32):
		return recordError(r.Place, names[positionColumn], "%v: positions count from 1", r.Position)
	case r.Impressions == 0 && r.Position != 0:
		return recordError(r.Place, names[positionColumn], "%v: without impressions the position must be 0", r.Position)
	}
	return nil
}
