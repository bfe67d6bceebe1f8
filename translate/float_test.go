package translate

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// wantShortest checks a decimal against the standard library's formatter. It reports whether shortest has found it.
func wantShortest(tb testing.TB, f float64) bool {
	tb.Helper()
	text, ok := appendShortest(nil, f)
	if !ok {
		return false
	}
	if got, want := string(text), strconv.FormatFloat(f, 'f', -1, 64); got != want {
		tb.Errorf("%v is written as %s, want %s", f, got, want)
	}
	return true
}

func TestFloatsAreWrittenAsTheStandardLibraryDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	var found, tried int
	check := func(f float64) {
		tried++
		if wantShortest(t, f) {
			found++
		}
	}
	for range 200_000 {
		impressions := 1 + random.Int64N(1<<random.IntN(40))
		check(float64(random.Int64N(1+impressions)) / float64(impressions))       // a ctr
		check(1 + float64(random.Int64N(1+100*impressions))/float64(impressions)) // a position
		check(float64(random.Int64N(1e9)) / math.Pow10(random.IntN(12)))          // few digits
		check(math.Ldexp(1+random.Float64(), random.IntN(71)-20))
	}
	if found < tried/2 {
		t.Errorf("%d of %d are found", found, tried)
	}
	for n := -7; n <= 16; n++ { // the neighbours of what divides one case from another
		for _, f := range []float64{math.Pow10(n), math.Ldexp(1, 3*n)} {
			low, high := f, f
			for range 1000 {
				wantShortest(t, low)
				wantShortest(t, high)
				low, high = math.Nextafter(low, 0), math.Nextafter(high, math.Inf(1))
			}
		}
	}
	for _, f := range []float64{0, 1, 2, 1e-7, 1e8 + 0.5, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), -0.1} {
		if _, ok := appendShortest(nil, f); ok {
			t.Errorf("%v is not left to the standard library", f)
		}
	}
}

func FuzzShortest(f *testing.F) {
	f.Add(0.011227344649457216)
	f.Add(9.5440029550272758)
	f.Fuzz(func(t *testing.T, x float64) { wantShortest(t, x) })
}

func BenchmarkAppendFloat(b *testing.B) {
	random := rand.New(rand.NewPCG(17, 18))
	figures := make([]float64, 1<<10)
	for i := 0; i < len(figures); i += 2 {
		impressions := 1 + random.Int64N(50_000)
		figures[i] = float64(1+random.Int64N(impressions)) / float64(impressions)
		figures[i+1] = 1 + float64(random.Int64N(100*impressions))/float64(impressions)
	}
	var buffer [32]byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		appendFloat(buffer[:0], figures[i%len(figures)])
	}
}
