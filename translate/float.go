package translate

import (
	"math"
	"math/bits"
	"strconv"
)

// appendFloat appends f, which must be finite, in the fewest digits that read back as f.
func appendFloat(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	magnitude := math.Abs(f)
	if n, places, ok := shortest(magnitude); ok {
		if f < 0 {
			dst = append(dst, '-')
		}
		return appendDecimal(dst, n, places)
	}
	if magnitude < 1e-6 || magnitude >= 1e21 {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// shortest returns the decimal n / 10^places with the fewest digits that reads back as f, and of these the nearest to f, as
// strconv.AppendFloat does in twice the time. ok is false for what it leaves to that: whole numbers, those below 10^-6 and from 10^15 on,
// powers of two, and those in the middle of two decimals.
//
// f is mantissa * 2^exponent, and what is nearer to f than half of 2^exponent reads back as f. With 17 digits before the point, f is
// whole and a rest, together mantissa * 5^places / 2^shift, which 128 bits hold exactly, and that half is from 0.5 to 11.2. So 17 digits
// suffice, and at most one number of up to 15 digits is near enough.
func shortest(f float64) (n uint64, places int, ok bool) {
	const (
		stored = 52 // bits of the mantissa
		bias   = 1023 + stored
	)
	exponent, mantissa := int(math.Float64bits(f)>>stored)-bias, math.Float64bits(f)&(1<<stored-1)
	if f < 1e-6 || f >= 1e15 || mantissa == 0 {
		return 0, 0, false
	}
	const log2 = 1233 // of 4,096: the decimal logarithm of 2
	places = 16 - (exponent+stored)*log2>>12
	if f >= floatOfTen(17-places) {
		places--
	}
	power := powerOfFive(places)
	high, low := bits.Mul64(mantissa|1<<stored, power)
	shift := uint(-exponent - places)
	whole, rest := high<<(64-shift)|low>>shift, low&(1<<shift-1)
	reach := power / 2 // power is odd
	n, off := nearest(whole, rest, shift, 100)
	if off <= reach {
		for places -= 2; n%10 == 0; places-- {
			n /= 10
		}
		return n, places, places > 0
	}
	if n, off = nearest(whole, rest, shift, 10); off <= reach {
		return n, places - 1, off != 5<<shift
	}
	n, off = nearest(whole, rest, shift, 1)
	return n, places, off != 1<<(shift-1)
}

// nearest returns the number that is nearest to (whole + rest / 2^shift) / divisor, and how far it is off, in 2^-shift of a whole.
func nearest(whole, rest uint64, shift uint, divisor uint64) (n, off uint64) {
	n = whole / divisor
	off = (whole-n*divisor)<<shift + rest
	if above := divisor<<shift - off; above < off {
		return n + 1, above
	}
	return n, off
}

// powerOfFive returns 5^n for n up to 22.
func powerOfFive(n int) uint64 {
	return [...]uint64{1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625, 1220703125, 6103515625,
		30517578125, 152587890625, 762939453125, 3814697265625, 19073486328125, 95367431640625, 476837158203125, 2384185791015625}[n]
}

// floatOfTen returns 10^n for n from -6 to 15.
func floatOfTen(n int) float64 {
	return [...]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}[6+n]
}

// appendDecimal appends n / 10^places, which is at least 10^-6 and not whole.
func appendDecimal(dst []byte, n uint64, places int) []byte {
	const zeros = "0.00000"
	var text [24]byte
	at := len(text)
	for ; n >= 1e8; n /= 1e8 {
		at -= 8
		putEight(text[at:], uint32(n%1e8))
	}
	first := uint32(n)
	for ; first >= 10; first /= 100 {
		at -= 2
		putTwo(text[at:], first%100)
	}
	if first > 0 {
		at--
		text[at] = '0' + byte(first)
	}
	point := len(text) - places
	if at >= point {
		return append(append(dst, zeros[:len("0.")+at-point]...), text[at:]...)
	}
	dst = append(append(dst, text[at:point]...), '.')
	return append(dst, text[point:]...)
}

func putEight(text []byte, n uint32) {
	high, low := n/1e4, n%1e4
	putTwo(text, high/100)
	putTwo(text[2:], high%100)
	putTwo(text[4:], low/100)
	putTwo(text[6:], low%100)
}

func putTwo(text []byte, n uint32) {
	const digits = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
	text[1], text[0] = digits[2*n+1], digits[2*n]
}
