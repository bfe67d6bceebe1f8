package translate

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// appendFloat appends f, which must be finite, in the fewest digits that read back as f.
func appendFloat(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return appendInt(dst, int64(f))
	}
	before := len(dst)
	if f < 0 {
		dst = append(dst, '-')
	}
	if text, ok := appendShortest(dst, math.Abs(f)); ok {
		return text
	}
	if magnitude := math.Abs(f); magnitude < 1e-6 || magnitude >= 1e21 {
		return strconv.AppendFloat(dst[:before], f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst[:before], f, 'f', -1, 64)
}

// appendShortest appends the decimal with the fewest digits that reads back as f, and of these the nearest to f, as
// strconv.AppendFloat does in twice the time. ok is false for what it leaves to that: whole numbers, those below 10^-6 and from 10^8
// on, and those in the middle of two decimals.
//
// f is mantissa * 2^exponent, and what is nearer to f than half of 2^exponent reads back as f. With 17 digits before the point, f is
// whole and a rest, together mantissa * 5^places / 2^shift, which 128 bits hold exactly, and that half, the reach, is from 0.5 to 11.2. So
// 17 digits suffice, and at most one number of up to 15 digits is near enough. Below a power of two, the reach is half of that, but these
// fractions have up to 14 digits themselves.
func appendShortest(dst []byte, f float64) (text []byte, ok bool) {
	const (
		stored = 52 // bits of the mantissa
		bias   = 1023 + stored
	)
	exponent, mantissa := int(math.Float64bits(f)>>stored)-bias, math.Float64bits(f)&(1<<stored-1)
	if !(f >= 1e-6 && f < 1e8) {
		return dst, false
	}
	const log2 = 1233 // of 4,096: the decimal logarithm of 2
	places := 16 - (exponent+stored)*log2>>12
	if f >= floatOfTen(17-places) {
		places--
	}
	power := powerOfFive(places)
	high, low := bits.Mul64(mantissa|1<<stored, power)
	shift := uint(-exponent-places) & 63 // from 17 to 50
	whole, rest := high<<(64-shift)|low>>shift, low&(1<<shift-1)
	reach := power / 2 // power is odd
	digits, ok := shortened(whole, rest, shift, reach)
	if !ok {
		return dst, false
	}
	return appendDigits(dst, digits, 17-places)
}

// shortened returns the decimal that is written for whole + rest / 2^shift, with as many zeros at its end as it has fewer than 17 digits: the
// multiple of 100 within reach if there is one, else the nearest multiple of 10 within reach, else the nearest whole number. ok is false
// if that is in the middle of two.
func shortened(whole, rest uint64, shift uint, reach uint64) (digits uint64, ok bool) {
	hundred := whole % 100
	ten := hundred % 10
	if off := hundred<<shift + rest; off <= reach {
		return whole - hundred, true
	} else if 100<<shift-off <= reach {
		return whole - hundred + 100, true
	}
	off := ten<<shift + rest
	digits = whole - ten
	if above := 10<<shift - off; above < off {
		off, digits = above, digits+10
	}
	if off <= reach {
		return digits, off != 5<<shift
	}
	middle := uint64(1) << shift / 2
	if digits = whole; rest > middle {
		digits++
	}
	return digits, rest != middle
}

// appendDigits appends a decimal of 17 digits without the zeros at its end, with a number of digits, at most 8, in front of the point. ok is
// false if it is whole.
func appendDigits(dst []byte, digits uint64, front int) (text []byte, ok bool) {
	const zeros = eightZeros - '0'<<8 + '.'<<8 // 0.000000

	if digits == 1e17 { // rounded up
		digits, front = 1e16, front+1
	}
	upper, lower := digits/1e8, digits%1e8
	first, high, low := upper/1e8, eightDigits(upper%1e8), eightDigits(lower)
	count := 17 - bits.LeadingZeros64(low)/8
	if low == 0 {
		count = 9 - bits.LeadingZeros64(high)/8
	}
	high, low = high|eightZeros, low|eightZeros
	if front <= 0 {
		begin := len(dst) + 2 - front
		end := begin + count
		dst = append(binary.LittleEndian.AppendUint64(dst, zeros)[:begin], '0'+byte(first))
		dst = binary.LittleEndian.AppendUint64(dst, high)
		return binary.LittleEndian.AppendUint64(dst, low)[:end], true
	}
	if count <= front {
		return dst, false
	}
	end := len(dst) + 1 + count
	before := uint64(1)<<(8*(front-1)) - 1 // of the eight digits, those in front of the point
	pointed := high&before | '.'<<(8*(front-1)) | high&^before<<8
	dst = binary.LittleEndian.AppendUint64(append(dst, '0'+byte(first)), pointed)
	dst = append(dst, byte(high>>56))
	return binary.LittleEndian.AppendUint64(dst, low)[:end], true
}

// appendInt appends n.
func appendInt(dst []byte, n int64) []byte {
	if uint64(n) >= 1e8 {
		return strconv.AppendInt(dst, n, 10)
	}
	digits := eightDigits(uint64(n))
	zeros := bits.TrailingZeros64(digits|1<<56) / 8 // in front, except for the last digit
	return binary.LittleEndian.AppendUint64(dst, (digits|eightZeros)>>(8*zeros))[:len(dst)+8-zeros]
}

const eightZeros = 0x3030303030303030 // as text

// eightDigits returns the digits of a number below 10^8, each as a byte, the first one lowest. It divides two numbers of four digits at the
// same time, and then four of two digits, by multiplying.
func eightDigits(n uint64) uint64 {
	n = n/1e4 | n%1e4<<32
	hundreds := n * 10486 >> 20 & 0x7f_0000_007f
	n = hundreds | (n-hundreds*100)<<16
	tens := n * 103 >> 10 & 0xf_000f_000f_000f
	return tens | (n-tens*10)<<8
}

// powerOfFive returns 5^n for n up to 22.
func powerOfFive(n int) uint64 {
	return [...]uint64{1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625, 1220703125, 6103515625,
		30517578125, 152587890625, 762939453125, 3814697265625, 19073486328125, 95367431640625, 476837158203125, 2384185791015625}[n]
}

// floatOfTen returns 10^n for n from -6 to 8.
func floatOfTen(n int) float64 {
	return [...]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}[6+n]
}
