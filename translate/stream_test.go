package translate

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// readRows reads a body twice: at once, and through a window of few bytes that fills byte by byte. Both must agree.
func readRows(body []byte, by Dimension) (*Rows, error) {
	rows, err := ReadRows(bytes.NewReader(body), by)
	const tooSlow = 1 << 20
	if len(body) > tooSlow {
		return rows, err
	}
	again := new(Rows)
	againErr := again.readBody(newWindow(iotest.OneByteReader(bytes.NewReader(body)), 1), by)
	switch {
	case (err == nil) != (againErr == nil):
		return nil, errors.Join(errors.New("BUG: the window matters"), err, againErr)
	case err == nil && !equalRows(rows, again):
		return nil, errors.New("BUG: the rows depend on the window")
	}
	return rows, err
}

func newWindow(source io.Reader, size int) *bodyWindow {
	return &bodyWindow{source: source, buffer: make([]byte, size)}
}

// A RowsReader keeps memory for the next body, but shares none with the rows that it has returned.
func TestRowsReaderSharesNoMemoryWithRows(t *testing.T) {
	long := bytes.Replace(upstreamBody(900), []byte("café"), bytes.Repeat([]byte("x"), 1<<20-1000), 1) // the first chunk has no room
	bodies := [][]byte{upstreamBody(3), upstreamBody(0), upstreamBody(NarrowSample), []byte("{"), upstreamBody(WideSample),
		upstreamBody(700)[:9000], long, upstreamBody(64)}
	var reader RowsReader
	var all, want []*Rows
	for range 2 {
		for i, body := range bodies {
			rows, err := reader.Read(bytes.NewReader(body), ByQuery)
			separate, separateErr := ReadRows(bytes.NewReader(body), ByQuery)
			if (err == nil) != (separateErr == nil) {
				t.Fatalf("body %d: %v, want %v", i, err, separateErr)
			}
			if err == nil {
				all, want = append(all, rows), append(want, separate)
			}
		}
	}
	for i := range all {
		if !equalRows(all[i], want[i]) {
			t.Errorf("result %d has changed", i)
		}
	}
}

// encoded returns what Encode writes.
func encoded(rows *Rows) []byte {
	return bytes.Join(encodedBlocks(rows), nil)
}

// encodedBlocks returns the blocks that Encode writes.
func encodedBlocks(rows *Rows) [][]byte {
	out := new(blocks)
	if err := rows.Encode(out); err != nil {
		panic(err)
	}
	return append(out.ended, out.Bytes())
}

// blocks is a BlockWriter.
type blocks struct {
	bytes.Buffer
	ended [][]byte
}

func (b *blocks) Flush() error {
	b.ended = append(b.ended, bytes.Clone(b.Bytes()))
	b.Reset()
	return nil
}

func decodeRows(data []byte) (*Rows, error) { return new(Decoder).Rows(bytes.NewReader(data), 0) }

// keyText returns all keys, one after the other.
func keyText(rows *Rows) string { return string(bytes.Join(rows.keys.chunks, nil)) }

// FuzzReadRowsWindows reads bodies through windows of all sizes, in pieces of all sizes: the result never depends on them.
func FuzzReadRowsWindows(f *testing.F) {
	f.Add(upstreamBody(3), uint64(1))
	f.Add(upstreamBody(40), uint64(2))
	f.Add([]byte(`{"metadata":{"a":[1,2,{"b":null}]},"n":12.5,"rows":[],"responseAggregationType":"byProperty"} `), uint64(3))
	f.Add([]byte(`{"responseAggregationType" : 1234567890`), uint64(4))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		want, wantErr := ReadRows(bytes.NewReader(body), ByCountry)
		for range 5 {
			pieces := io.Reader(pieceReader{bytes.NewReader(body), random})
			if random.IntN(2) == 0 {
				pieces = iotest.DataErrReader(pieces)
			}
			got := new(Rows)
			err := got.readBody(newWindow(pieces, 1+random.IntN(100)), ByCountry)
			if (err == nil) != (wantErr == nil) || err == nil && !equalRows(got, want) {
				t.Fatalf("%q: %v, want %v", body, err, wantErr)
			}
			if err != nil && err.Error() != wantErr.Error() {
				t.Errorf("%q: %v, want %v", body, err, wantErr)
			}
		}
	})
}

// A pieceReader reads pieces of random size, some of which are empty.
type pieceReader struct {
	io.Reader
	random *rand.Rand
}

func (r pieceReader) Read(p []byte) (int, error) {
	return r.Reader.Read(p[:r.random.IntN(min(len(p), 20)+1)])
}

// An error of the connection is an error, wherever it comes, and is wrapped.
func TestReadRowsWrapsErrorsOfTheBody(t *testing.T) {
	broken := errors.New("broken")
	body := string(upstreamBody(50))
	for n := range len(body) + 1 {
		if rows, err := ReadRows(io.MultiReader(strings.NewReader(body[:n]), iotest.ErrReader(broken)), ByQuery); !errors.Is(err, broken) || rows != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// A window does not grow without bound, and a row of any length up to its bound is read.
func TestReadRowsBoundsRows(t *testing.T) {
	row := func(size int) string {
		return `{"rows":[{"keys":["b"],"clicks":2,"impressions":2},{"keys":["` + strings.Repeat("a", size) + `"],"clicks":1,"impressions":1}]}`
	}
	for _, size := range []int{usualWindow - 100, usualWindow, 3 * usualWindow, maxWindow - 100} {
		rows, err := ReadRows(strings.NewReader(row(size)), ByPage)
		if err != nil || rows.Len() != 2 || len(rows.Key(1)) != size {
			t.Errorf("a key of %d bytes: %v", size, err)
		}
	}
	if _, err := ReadRows(strings.NewReader(row(maxWindow)), ByPage); !errors.Is(err, errLongMember) {
		t.Errorf("got %v", err)
	}
}

// Keys fill chunk after chunk.
func TestReadRowsOfManyChunks(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"rows":[`)
	var want []string
	for i := range 10_000 {
		if i > 0 {
			body.WriteByte(',')
		}
		key := strings.Repeat(string(rune('a'+i%26)), 1+i*7919%1000)
		want = append(want, key)
		body.WriteString(`{"keys":["` + key + `"],"clicks":1,"impressions":1,"ctr":1,"position":1}`)
	}
	body.WriteString(`]}`)
	rows, err := ReadRows(strings.NewReader(body.String()), ByPage)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decodeRows(encoded(rows))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows.keys.chunks) < 4 || !equalRows(rows, decoded) {
		t.Errorf("%d chunks", len(rows.keys.chunks))
	}
	for i, key := range want {
		if string(rows.Key(i)) != key {
			t.Fatalf("row %d is %.20q, want %.20q", i, rows.Key(i), key)
		}
	}
}
