package translate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// wantDecimal checks a decimal against the standard library's parser.
func wantDecimal(t *testing.T, n uint64, places int) {
	t.Helper()
	want, err := strconv.ParseFloat(fmt.Sprintf("%de-%d", n, places), 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := decimal(n, places); math.Float64bits(got) != math.Float64bits(want) {
		t.Errorf("%d / 10^%d is %v, want %v", n, places, got, want)
	}
}

func TestDecimalsAreRoundedAsTheStandardLibraryDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for places := range exactDigits + 1 {
		for _, n := range []uint64{0, 1, 9, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<54 + 2, 1<<54 + 6, 1<<63 - 1, 1 << 63, math.MaxUint64} {
			wantDecimal(t, n, places)
		}
		for range 20_000 {
			wantDecimal(t, random.Uint64()>>random.IntN(64), places)
		}
	}
	for range 100_000 { // what an upstream sends, and its neighbours: the digits of floats, and those of the middle between two
		f := float64(random.Int64N(5000)) / float64(1+random.Int64N(5000))
		for _, places := range []int{16, 17, 18} {
			if n, err := strconv.ParseUint(strconv.FormatFloat(f*math.Pow10(places), 'f', 0, 64), 10, 64); err == nil {
				wantDecimal(t, n, places)
			}
		}
		text := strconv.AppendFloat(nil, f, 'f', -1, 64)
		s := scanner{text: string(text) + ","}
		if got, err := s.number(); err != nil || got != f {
			t.Errorf("%s is read as %v (%v)", text, got, err)
		}
	}
}

func FuzzDecimal(f *testing.F) {
	f.Add(uint64(24691358024691357), uint8(18))
	f.Fuzz(func(t *testing.T, n uint64, places uint8) { wantDecimal(t, n, int(places%(exactDigits+1))) })
}
