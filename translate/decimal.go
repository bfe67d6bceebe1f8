package translate

import (
	"math"
	"math/bits"
)

// exactDigits is how many decimal digits a uint64 holds, whatever they are.
const exactDigits = 19

// powerOfTen returns 10^n, or anything if n is above exactDigits.
func powerOfTen(n int) uint64 {
	return [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}[min(n, exactDigits)]
}

// decimal returns the float64 that is nearest to n / 10^places, ties to even, as strconv.ParseFloat does in twice the time; places
// is at most exactDigits. The quotient of both, scaled to 64 bits, has at least 62 bits, and the rest of the division says
// whether it is exact.
func decimal(n uint64, places int) float64 {
	const mantissa, exponentBias = 53, 1023
	if n < 1<<mantissa && places == 0 {
		return float64(n)
	}
	if n == 0 {
		return 0
	}
	divisor := powerOfTen(places)
	up, divisorUp := bits.LeadingZeros64(n), bits.LeadingZeros64(divisor)
	n <<= up
	quotient, rest := bits.Div64(n>>1, n<<63, divisor<<divisorUp)
	surplus := bits.Len64(quotient) - mantissa
	kept, dropped, half := quotient>>surplus, quotient&(1<<surplus-1), uint64(1)<<(surplus-1)
	if dropped > half || dropped == half && (rest != 0 || kept&1 == 1) {
		kept++
	}
	// The result is far from the limits of the exponent, so scaling by a power of two is exact.
	return float64(kept) * math.Float64frombits(uint64(exponentBias+surplus-63+divisorUp-up)<<(mantissa-1))
}
