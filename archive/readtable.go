package archive

import (
	"errors"
	"fmt"
	"io"

	"sara/archive/tablefile"
)

// readTable reads the records of a file, whose columns may have any types that hold the values of records. at is the place of its rows.
func readTable(file *tablefile.File, at Place, yield func(FileRecord, error) bool) error {
	inFile := func(err error) error {
		if at.File == "" {
			return err
		}
		return fmt.Errorf("%s: %w", at.File, err)
	}
	names := columnNames()
	if err := file.Choose(names[:]...); err != nil {
		return inFile(err)
	}
	var cells [len(names)]tablefile.Cell
	for {
		switch err := file.Read(cells[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return inFile(err)
		}
		at.Number++
		columns, err := textColumns(at, &cells)
		if err != nil {
			return err
		}
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

// textColumns returns the columns of a record as text. A key may be null, because some programs do not distinguish that from an empty text.
func textColumns(at Place, cells *[columnCount]tablefile.Cell) (columns [columnCount]string, err error) {
	names := columnNames()
	for i := range cells {
		switch c := &cells[i]; {
		case c.IsNull() && i != keyColumn:
			return columns, recordError(at, names[i], "it is missing")
		case c.IsEmpty():
		case c.Text() != nil:
			columns[i] = string(c.Text())
		case i == dimensionColumn || i == keyColumn:
			return columns, recordError(at, names[i], "%s is not text", c)
		case i == dateColumn:
			date, ok := c.Date()
			if !ok {
				return columns, recordError(at, names[i], "%s is not a day", c.Describe())
			}
			columns[i] = date.String()
		default:
			columns[i] = c.String()
		}
	}
	return columns, nil
}
