package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"sara/archive/tablefile"
)

// ReadShards reads the records of several files, such as a sharded query export, in any of the formats of package tablefile, with the six
// columns in any order. It is more lenient than ReadRecords: numbers may be text, and extra columns are ignored.
func ReadShards(paths []string) iter.Seq2[FileRecord, error] {
	return func(yield func(FileRecord, error) bool) {
		for _, path := range paths {
			if err := readShard(path, yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(FileRecord{}, err)
				}
				return
			}
		}
	}
}

func readShard(path string, yield func(FileRecord, error) bool) (err error) {
	file, err := tablefile.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	names := columnNames()
	if err := file.Choose(names[:]...); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	at := Place{IsRow: true, File: path}
	var cells [len(names)]tablefile.Cell
	for {
		switch err := file.Read(cells[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
		at.Number++
		columns := textColumns(&cells)
		if file.Format() == tablefile.CSV {
			columns[keyColumn] = unguardFormula(columns[keyColumn])
		}
		r, err := parseRecord(at, columns)
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return errStopped
		}
	}
}

// textColumns returns the columns of a record as text. A value of the wrong type is left as it is, for parseRecord to refuse.
func textColumns(cells *[columnCount]tablefile.Cell) (columns [columnCount]string) {
	for i := range cells {
		columns[i] = string(cells[i].Text())
		if cells[i].Text() == nil && !cells[i].IsEmpty() {
			columns[i] = cells[i].String()
		}
	}
	if date, ok := cells[dateColumn].Date(); ok {
		columns[dateColumn] = date.String()
	}
	if f, ok := cells[positionColumn].Float(); ok && cells[positionColumn].Text() == nil {
		columns[positionColumn] = strconv.FormatFloat(f, 'g', -1, 64)
	}
	return columns
}
