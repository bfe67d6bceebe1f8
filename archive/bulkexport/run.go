package bulkexport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"

	"sara/archive"
	"sara/translate"
)

// A run is a file of the temporary folder: sums ordered by group and key. Each month's sums are a section of it, so each month can be
// read alone. A key is stored without the prefix it shares with the one before (front coding), which shortens URLs to a third.
type run struct {
	Name     string    `json:"name"`
	Sections []section `json:"sections"` // in order
}

// section is the part of a run that holds a month.
type section struct {
	Month  translate.Date `json:"month"` // its first day
	Offset int64          `json:"offset"`
	Length int64          `json:"length"`
}

func (r run) size() (n int64) {
	for _, s := range r.Sections {
		n += s.Length
	}
	return n
}

const runBuffer = 1 << 16

// runWriter writes a run. Sums are added in order.
type runWriter struct {
	run    run
	file   *os.File
	out    *bufio.Writer
	offset int64
	last   group
	key    []byte // the last one
	line   []byte
}

func createRun(path, name string) (*runWriter, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &runWriter{run: run{Name: name}, file: file, out: bufio.NewWriterSize(file, runBuffer)}, nil
}

func (w *runWriter) add(g group, key []byte, f figures) error {
	if month := g.date.MonthStart(); len(w.run.Sections) == 0 || month != w.current().Month {
		w.run.Sections = append(w.run.Sections, section{Month: month, Offset: w.offset})
		w.last, w.key = group{date: month}, w.key[:0]
	}
	if g != w.last {
		w.key = w.key[:0]
	}
	common := commonPrefix(w.key, key)
	w.line = binary.AppendUvarint(w.line[:0], uint64(g.date-w.last.date))
	w.line = append(w.line, byte(g.by))
	w.line = binary.AppendUvarint(w.line, uint64(common))
	w.line = binary.AppendUvarint(w.line, uint64(len(key)-common))
	w.line = append(w.line, key[common:]...)
	w.line = binary.AppendUvarint(w.line, uint64(f.clicks))
	w.line = binary.AppendUvarint(w.line, uint64(f.impressions))
	// The low bytes of a small whole number's float64 are zero. Reversed, they are the high ones, which a varint omits.
	w.line = binary.AppendUvarint(w.line, bits.ReverseBytes64(math.Float64bits(f.positions)))
	w.last, w.key = g, append(w.key[:0], key...)
	w.offset += int64(len(w.line))
	w.current().Length += int64(len(w.line))
	_, err := w.out.Write(w.line)
	return err
}

func (w *runWriter) current() *section { return &w.run.Sections[len(w.run.Sections)-1] }

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// close makes the run durable.
func (w *runWriter) close() error {
	err := w.out.Flush()
	if err == nil {
		err = w.file.Sync()
	}
	return errors.Join(err, w.file.Close())
}

// abandon closes the file of a failed run.
func (w *runWriter) abandon() { _ = w.file.Close() }

// sectionReader reads a section of a run.
type sectionReader struct {
	in    *bufio.Reader
	group group
	key   []byte // valid until the next call of next
	figures
}

func newSectionReader(file io.ReaderAt, s section) *sectionReader {
	return &sectionReader{in: bufio.NewReaderSize(io.NewSectionReader(file, s.Offset, s.Length), runBuffer), group: group{date: s.Month}}
}

// next reads the next sum, or returns io.EOF.
func (r *sectionReader) next() error {
	days, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err // io.EOF only if there is no byte left
	}
	if err := r.read(days); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("a temporary file is damaged: %w", err)
	}
	return nil
}

func (r *sectionReader) read(days uint64) error {
	by, err := r.in.ReadByte()
	if err != nil {
		return err
	}
	r.group = group{r.group.date + translate.Date(days), translate.Dimension(by)}
	var numbers [2]uint64
	for i := range numbers {
		if numbers[i], err = binary.ReadUvarint(r.in); err != nil {
			return err
		}
	}
	if numbers[0] > uint64(len(r.key)) || numbers[1] > archive.LongestKey {
		return errors.New("a key is too long")
	}
	r.key = append(r.key[:numbers[0]], make([]byte, numbers[1])...)
	if _, err := io.ReadFull(r.in, r.key[numbers[0]:]); err != nil {
		return err
	}
	for i := range numbers {
		if numbers[i], err = binary.ReadUvarint(r.in); err != nil {
			return err
		}
	}
	r.clicks, r.impressions = int64(numbers[0]), int64(numbers[1])
	positions, err := binary.ReadUvarint(r.in)
	r.positions = math.Float64frombits(bits.ReverseBytes64(positions))
	return err
}

// before reports whether the reader's sum comes before another's.
func (r *sectionReader) before(other *sectionReader) bool {
	if c := compareGroups(r.group, other.group); c != 0 {
		return c < 0
	}
	return bytes.Compare(r.key, other.key) < 0
}
