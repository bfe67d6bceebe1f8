package tablefile

import (
	"math"
	"strconv"

	"sara/translate"
)

// kind is the type of a cell.
type kind uint8

const (
	null kind = iota
	text
	whole
	decimal // a whole number that is not one of days
	fraction
	boolean
)

// A Cell is a value of a row. The zero Cell is null.
type Cell struct {
	kind   kind
	text   []byte
	number int64 // of whole, decimal and boolean
	float  float64
}

func (c *Cell) setNull()           { c.kind, c.text = null, nil }
func (c *Cell) setText(t []byte)   { c.kind, c.text = text, t }
func (c *Cell) setInt(n int64)     { c.kind, c.text, c.number = whole, nil, n }
func (c *Cell) setDecimal(n int64) { c.kind, c.text, c.number = decimal, nil, n }
func (c *Cell) setFloat(f float64) { c.kind, c.text, c.float = fraction, nil, f }
func (c *Cell) setBool(b bool) {
	c.kind, c.text, c.number = boolean, nil, 0
	if b {
		c.number = 1
	}
}

// IsNull reports whether the cell is null, or its row lacks it.
func (c *Cell) IsNull() bool { return c.kind == null }

// IsEmpty reports whether the cell is null or an empty text, which CSV cannot distinguish.
func (c *Cell) IsEmpty() bool { return c.kind == null || c.kind == text && len(c.text) == 0 }

// Text returns the text of the cell; nil if it is not text. The bytes are valid until the next row is read.
func (c *Cell) Text() []byte { return c.text }

// Int returns a whole number, even if it is written as text or has a fraction of zero.
func (c *Cell) Int() (int64, bool) {
	switch c.kind {
	case whole, decimal:
		return c.number, true
	case text:
		if n, err := strconv.ParseInt(string(c.text), 10, 64); err == nil {
			return n, true
		}
	}
	f, ok := c.Float()
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Float returns a finite number, even if it is written as text.
func (c *Cell) Float() (float64, bool) {
	f := c.float
	switch c.kind {
	case whole, decimal:
		return float64(c.number), true
	case fraction:
	case text:
		var err error
		if f, err = strconv.ParseFloat(string(c.text), 64); err != nil {
			return 0, false
		}
	default:
		return 0, false
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// Bool returns a boolean, even if it is written as text; null and an empty text are false.
func (c *Cell) Bool() (value, ok bool) {
	switch {
	case c.IsEmpty():
		return false, true
	case c.kind == boolean:
		return c.number != 0, true
	case c.kind == text:
		b, err := strconv.ParseBool(string(c.text))
		return b, err == nil
	}
	return false, false
}

// Date returns a day: a number of days since 1970, or text as YYYY-MM-DD.
func (c *Cell) Date() (translate.Date, bool) {
	switch c.kind {
	case whole:
		return translate.Date(c.number), c.number >= 0 && c.number <= math.MaxInt32
	case text:
		d, err := translate.ParseDate(string(c.text))
		return d, err == nil
	}
	return 0, false
}

// String returns the value for display.
func (c *Cell) String() string {
	switch c.kind {
	case text:
		return strconv.Quote(string(c.text))
	case whole, decimal:
		return strconv.FormatInt(c.number, 10)
	case fraction:
		return strconv.FormatFloat(c.float, 'g', -1, 64)
	case boolean:
		return strconv.FormatBool(c.number != 0)
	}
	return "null"
}

// Describe returns the value for a message about what it is not, with its type if the value alone could be that.
func (c *Cell) Describe() string {
	if c.kind == decimal {
		return c.String() + " of type DECIMAL"
	}
	return c.String()
}
