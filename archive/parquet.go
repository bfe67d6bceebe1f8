package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/parquet-go/parquet-go"

	"sara/archive/tablefile"
)

// exportedGroup is the number of rows in a row group of an exported file.
const exportedGroup = 100_000

func writeParquet(w io.Writer, records iter.Seq2[Record, error]) error {
	out := parquet.NewGenericWriter[storedRow](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("sara", formatVersion, ""),
		parquet.DataPageVersion(1), parquet.MaxRowsPerRowGroup(exportedGroup))
	for r, err := range records {
		if err != nil {
			return err
		}
		_, err = out.Write([]storedRow{{
			Date:        int32(r.Date),
			Dimension:   DimensionName(r.Dimension),
			Key:         r.Key,
			Clicks:      r.Clicks,
			Impressions: r.Impressions,
			Position:    r.Position,
		}})
		if err != nil {
			return err
		}
	}
	return out.Close()
}

// readParquet reads an untrusted file, which must have the columns of records and no others.
func readParquet(in io.ReaderAt, size int64, yield func(FileRecord, error) bool) (err error) {
	file, err := tablefile.OpenParquet(in, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	names, columns := columnNames(), file.Columns()
	for _, column := range columns {
		if !slices.Contains(names[:], column) {
			return fmt.Errorf("%.40q is not a column: the columns are %v", column, names)
		}
	}
	for _, name := range names {
		if !slices.Contains(columns, name) {
			return fmt.Errorf("column %s is missing", name)
		}
	}
	if len(columns) != len(names) {
		return fmt.Errorf("the file has %s: they must be %v", english.Plural(len(columns), "column", ""), names)
	}
	return readTable(file, Place{IsRow: true}, yield)
}
