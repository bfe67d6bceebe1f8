package tablefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/tidwall/gjson"

	"sara/translate"
)

// csvSource reads a CSV file, whose first line has the names of the columns.
type csvSource struct {
	in     *CSVReader
	names  []string
	chosen []int // the field of each chosen column, -1 if it is absent
}

func openCSV(in io.Reader) (*csvSource, error) {
	s := &csvSource{in: NewCSVReader(in)}
	if err := s.in.Read(); err != nil && !errors.Is(err, io.EOF) {
		return nil, s.place(err)
	}
	for i := range s.in.Fields() {
		s.names = append(s.names, string(s.in.Field(i)))
	}
	return s, nil
}

// place names the line of a syntax error.
func (s *csvSource) place(err error) error {
	if errors.As(err, new(SyntaxError)) {
		return fmt.Errorf("line %d: %w", s.in.Line(), err)
	}
	return err
}

func (s *csvSource) columns() []string { return s.names }

func (s *csvSource) choose(names []string) error {
	s.chosen = indexes(s.names, names)
	return nil
}

func (s *csvSource) read(cells []Cell) error {
	if err := s.in.Read(); err != nil {
		return s.place(err)
	}
	if s.in.Fields() != len(s.names) {
		return fmt.Errorf("line %d: it has %s, but the header has %d", s.in.Line(), english.Plural(s.in.Fields(), "field", ""), len(s.names))
	}
	for i, field := range s.chosen {
		if field < 0 {
			cells[i].setNull()
			continue
		}
		cells[i].setText(s.in.Field(field))
	}
	return nil
}

func (s *csvSource) close() error { return nil }

// indexes returns the index of each name among the columns, -1 if it is absent.
func indexes(columns, names []string) []int {
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = slices.Index(columns, name)
	}
	return at
}

// jsonSource reads a file with a JSON object on each line. An absent member is null.
type jsonSource struct {
	lines  *bufio.Scanner
	line   int
	names  []string
	chosen []string
}

// openJSON requires a reader that can look ahead.
func openJSON(in *bufio.Reader) *jsonSource {
	s := &jsonSource{}
	start, err := in.Peek(peeked)
	if err == nil || !errors.Is(err, io.EOF) { // there is more, so the last line may be cut off
		start = start[:bytes.LastIndexByte(start, '\n')+1]
	}
	for line := range bytes.Lines(bytes.TrimPrefix(start, []byte(byteOrder))) {
		gjson.ParseBytes(line).ForEach(func(name, _ gjson.Result) bool {
			if n := name.String(); !slices.Contains(s.names, n) && len(s.names) < 1000 {
				s.names = append(s.names, n)
			}
			return true
		})
	}
	s.lines = bufio.NewScanner(in)
	s.lines.Buffer(make([]byte, 0, peeked), longestRecord)
	return s
}

func (s *jsonSource) columns() []string { return s.names }

func (s *jsonSource) choose(names []string) error {
	s.chosen = names
	return nil
}

func (s *jsonSource) read(cells []Cell) error {
	for s.lines.Scan() {
		s.line++
		line := bytes.TrimSpace(bytes.TrimPrefix(s.lines.Bytes(), []byte(byteOrder)))
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' || !translate.ValidJSON(line) {
			if err := s.lines.Err(); err != nil {
				return err // the line is only the part that could be read
			}
			return fmt.Errorf("line %d: it is not a JSON object", s.line)
		}
		return s.parse(line, cells)
	}
	if errors.Is(s.lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: it is longer than %d bytes", s.line+1, longestRecord)
	}
	if err := s.lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

func (s *jsonSource) parse(line []byte, cells []Cell) (err error) {
	for i := range cells {
		cells[i].setNull()
	}
	gjson.ParseBytes(line).ForEach(func(name, value gjson.Result) bool {
		i := slices.Index(s.chosen, name.String())
		if i < 0 {
			return true
		}
		switch value.Type {
		case gjson.Null:
		case gjson.String:
			cells[i].setText([]byte(value.String()))
		case gjson.Number:
			cells[i].setText([]byte(value.Raw)) // text keeps all digits of a large number
		case gjson.True, gjson.False:
			cells[i].setBool(value.Bool())
		default:
			err = fmt.Errorf("line %d: %s is neither text nor a number", s.line, name.String())
		}
		return err == nil
	})
	return err
}

func (s *jsonSource) close() error { return nil }
