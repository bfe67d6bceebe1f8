package tablefile

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
)

// avroSource reads an Avro object container file, compressed with any of the standard codecs. Fields may be unions with null.
type avroSource struct {
	in     *ocf.Reader
	fields []avro.SchemaField
	names  []string      // of the chosen columns
	chosen []int         // the struct field of each chosen column, -1 if the file lacks it
	row    reflect.Value // a pointer to a struct with the chosen fields
	texts  [][]byte      // reused for the text of each column
}

// The bounds of a block, packed and unpacked. Writers usually make blocks of 64 KiB to 1 MiB.
const longestBlock = 32 << 20

func openAvro(in io.Reader) (*avroSource, error) {
	r, err := ocf.NewReader(in, ocf.WithMaxBlockBytes(longestBlock), ocf.WithMaxDecompressedBlockBytes(longestBlock),
		ocf.WithDecodeOpts(avro.SkipUnknown()),                                    // fields that are not chosen
		ocf.WithSchemaOpts(avro.CustomType{LogicalType: "date", AvroType: "int"})) // days since 1970, without a time.Time
	if err != nil {
		return nil, fmt.Errorf("not an Avro file: %w", err)
	}
	root := r.Schema().Root()
	if root.Type != "record" {
		return nil, errors.Join(fmt.Errorf("its rows are of type %.40s, not record", root.Type), r.Close())
	}
	return &avroSource{in: r, fields: root.Fields}, nil
}

func (s *avroSource) columns() (names []string) {
	for _, f := range s.fields {
		names = append(names, f.Name)
	}
	return names
}

func (s *avroSource) choose(names []string) error {
	s.names, s.chosen = names, indexes(s.columns(), names)
	s.texts = make([][]byte, len(names))
	var fields []reflect.StructField
	for i, at := range s.chosen {
		if at < 0 {
			continue
		}
		field := reflect.StructField{Name: "F" + strconv.Itoa(i), Type: reflect.TypeFor[any](), Tag: reflect.StructTag(`avro:"` + names[i] + `"`)}
		if isText(&s.fields[at].Type) {
			field.Type = reflect.TypeFor[string]() // null becomes empty, as in CSV
		}
		s.chosen[i] = len(fields)
		fields = append(fields, field)
	}
	s.row = reflect.New(reflect.StructOf(fields))
	return nil
}

// isText reports whether a field is text, or text or null.
func isText(n *avro.SchemaNode) bool {
	if n.Type == "union" {
		return !slices.ContainsFunc(n.Branches, func(b avro.SchemaNode) bool { return b.Type != "null" && b.Type != "string" })
	}
	return n.Type == "string"
}

func (s *avroSource) read(cells []Cell) error {
	if err := s.in.Decode(s.row.Interface()); err != nil {
		return err
	}
	for i, at := range s.chosen {
		if at < 0 {
			cells[i].setNull()
			continue
		}
		switch v := s.row.Elem().Field(at); v.Kind() {
		case reflect.String:
			s.texts[i] = append(s.texts[i][:0], v.String()...)
			cells[i].setText(s.texts[i])
		default:
			if err := setAny(&cells[i], v.Interface()); err != nil {
				return fmt.Errorf("column %s: %w", s.names[i], err)
			}
		}
	}
	return nil
}

func setAny(cell *Cell, value any) error {
	switch v := value.(type) {
	case nil:
		cell.setNull()
	case int32:
		cell.setInt(int64(v))
	case int64:
		cell.setInt(v)
	case float32:
		cell.setFloat(float64(v))
	case float64:
		cell.setFloat(v)
	case bool:
		cell.setBool(v)
	case string:
		cell.setText([]byte(v))
	default:
		return fmt.Errorf("it is of type %T", v)
	}
	return nil
}

func (s *avroSource) close() error { return s.in.Close() }
