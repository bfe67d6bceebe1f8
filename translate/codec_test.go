package translate

import (
	"bytes"
	"testing"
)

func TestRowsComeBackBitForBit(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		rows, err := ReadRows(upstreamBody(n), ByQuery)
		if err != nil {
			t.Fatal(err)
		}
		data := rows.AppendBinary([]byte("kept"))
		got, err := ParseRows(data[4:])
		if err != nil {
			t.Fatal(err)
		}
		if string(data[:4]) != "kept" || !bytes.Equal(got.AppendBinary(nil), data[4:]) || !equalRows(got, rows) {
			t.Errorf("%d rows came back otherwise", n)
		}
	}
}

// equalRows compares figures by their bits.
func equalRows(a, b *Rows) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.metrics {
		if a.metrics[i] != b.metrics[i] || !bytes.Equal(a.Key(i), b.Key(i)) {
			return false
		}
	}
	return true
}
