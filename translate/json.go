package translate

import (
	"math"
	"strconv"
)

// appendString appends s, which must be UTF-8, as a JSON string. It escapes only what JSON requires, not HTML: responses are
// served as application/json only, and URLs stay readable.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendFloat appends f, which must be finite, in the fewest digits that read back as f.
func appendFloat(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if magnitude := math.Abs(f); magnitude < 1e-6 || magnitude >= 1e21 {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

func appendMetrics(dst []byte, m Metrics) []byte {
	dst = append(dst, `"clicks":`...)
	dst = strconv.AppendInt(dst, m.Clicks, 10)
	dst = append(dst, `,"impressions":`...)
	dst = strconv.AppendInt(dst, m.Impressions, 10)
	dst = append(dst, `,"ctr":`...)
	dst = appendFloat(dst, m.CTR)
	dst = append(dst, `,"position":`...)
	return appendFloat(dst, m.Position)
}

func appendRange(dst []byte, r DateRange) []byte {
	dst = append(dst, `"start_date":"`...)
	dst = r.Start.Append(dst)
	dst = append(dst, `","end_date":"`...)
	dst = r.End.Append(dst)
	return append(dst, '"')
}
