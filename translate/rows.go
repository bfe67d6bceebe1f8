package translate

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"
)

// Metrics are the four figures of a row. CTR is a fraction; Position counts from 1, and is 0 without impressions.
type Metrics struct {
	Clicks, Impressions int64
	CTR, Position       float64
}

// Rows are the rows of one upstream answer, each with one key, in the upstream's order. The keys lie in one arena, so that
// reading costs a few allocations however many rows there are.
type Rows struct {
	arena   []byte
	ends    []int32 // where each key ends in the arena
	metrics []Metrics
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.metrics) }

// Key returns the key of row i. The bytes belong to r.
func (r *Rows) Key(i int) []byte {
	start := int32(0)
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.arena[start:r.ends[i]:r.ends[i]]
}

// Metrics returns the figures of row i.
func (r *Rows) Metrics(i int) Metrics { return r.metrics[i] }

// head returns the first n rows, or r if there are no more. They share r's memory.
func (r *Rows) head(n int) *Rows {
	if r.Len() <= n {
		return r
	}
	return &Rows{arena: r.arena, ends: r.ends[:n], metrics: r.metrics[:n]}
}

// ReadRows reads the body of a Search Console answer to a question with exactly one dimension, by. It copies what it
// needs. An absent rows member is an answer without rows; anything malformed is an error, never a shorter answer.
func ReadRows(body []byte, by Dimension) (*Rows, error) {
	if len(body) > math.MaxInt32 {
		return nil, fmt.Errorf("upstream body has %d bytes, over 2 GiB", len(body))
	}
	// A view of the body as a string saves a copy of megabytes. It lives no longer than this call, during which nobody
	// writes to the body.
	s := &scanner{text: unsafe.String(unsafe.SliceData(body), len(body))}
	rows := new(Rows)
	err := rows.readDocument(s)
	if s.next(); err == nil && s.at < len(s.text) {
		err = errRowText
	}
	if err != nil {
		return nil, fmt.Errorf("upstream body, after %d rows and %d bytes: %w", rows.Len(), s.at, err)
	}
	if by == ByCountry {
		lowerASCII(rows.arena)
	}
	rows.arena, rows.ends, rows.metrics = clip(rows.arena), clip(rows.ends), clip(rows.metrics)
	return rows, nil
}

// clip returns s in memory that is not much larger than s: rows may be kept for long, and were read into guessed sizes.
func clip[E any](s []E) []E {
	if waste := cap(s) - len(s); waste <= cap(s)/4 {
		return s
	}
	return append(make([]E, 0, len(s)), s...)
}

// lowerASCII folds country keys to lower case (spec: What the service does, 7), should the upstream ever not.
func lowerASCII(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
}

// readDocument reads the rows of a whole answer and passes over what else is in it. An answer without rows still says how
// it was aggregated; a body that has neither is not an answer, whatever its status was.
func (r *Rows) readDocument(s *scanner) error {
	aggregated := false
	err := s.list('{', '}', func() error {
		name, err := s.name()
		switch {
		case err != nil:
			return err
		case name == "rows" && r.metrics != nil:
			return errors.New("there are rows twice")
		case name == "rows":
			return r.readList(s)
		}
		aggregated = aggregated || name == "responseAggregationType"
		return s.skip()
	})
	if err == nil && r.metrics == nil && !aggregated {
		err = errors.New("it has neither rows nor responseAggregationType")
	}
	return err
}

func (r *Rows) readList(s *scanner) error {
	const usualRow, usualKeyShare = 120, 3
	size := len(s.text) - s.at
	r.metrics = make([]Metrics, 0, size/usualRow+1)
	r.ends = make([]int32, 0, size/usualRow+1)
	r.arena = make([]byte, 0, size/usualKeyShare)
	return s.list('[', ']', func() error { return r.readRow(s) })
}

// The members that a row must have; position is missing for some types of search.
const (
	sawKeys = 1 << iota
	sawClicks
	sawImpressions
	sawCTR
	sawPosition
)

func (r *Rows) readRow(s *scanner) error {
	var m Metrics
	seen := 0
	err := s.list('{', '}', func() error {
		name, err := s.name()
		if err != nil {
			return err
		}
		member := 0
		switch name {
		case "keys":
			member, err = sawKeys, r.readKey(s)
		case "clicks":
			member = sawClicks
			m.Clicks, err = s.count()
		case "impressions":
			member = sawImpressions
			m.Impressions, err = s.count()
		case "ctr":
			member = sawCTR
			m.CTR, err = s.fraction()
		case "position":
			member = sawPosition
			m.Position, err = s.fraction()
		default:
			err = s.skip()
		}
		if seen&member != 0 {
			err = errors.New("it is there twice")
		}
		seen |= member
		if err != nil {
			return fmt.Errorf("member %.40q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if required := sawKeys | sawClicks | sawImpressions; seen&required != required {
		return errors.New("a row without keys, clicks or impressions")
	}
	r.ends = append(r.ends, int32(len(r.arena)))
	r.metrics = append(r.metrics, m)
	return nil
}

// readKey reads an array of exactly one string into the arena.
func (r *Rows) readKey(s *scanner) error {
	if !s.accept('[') {
		return errRowText
	}
	raw, escaped, err := s.str()
	if err != nil {
		return err
	}
	if escaped || !utf8.ValidString(raw) {
		r.arena = appendUnescaped(r.arena, raw)
	} else {
		r.arena = append(r.arena, raw...)
	}
	if !s.accept(']') {
		return errRowText
	}
	return nil
}

// largestCount is where doubles, the upstream's type for a count, stop telling one from the next.
const largestCount = 1 << 53

// count reads a whole number. The upstream's type for it is a double, and it has been seen written as 12, 12.0 and 1.2E1.
func (s *scanner) count() (int64, error) {
	f, err := s.number()
	if err != nil || !(f >= 0 && f <= largestCount) {
		return 0, errors.New("it is not a number from 0 to 2^53")
	}
	return int64(math.Round(f)), nil
}

func (s *scanner) fraction() (float64, error) {
	f, err := s.number()
	if err != nil || !isFraction(f) {
		return 0, errors.New("it is not a number in its range")
	}
	return f, nil
}

// isFraction reports whether f can be a ctr or a position.
func isFraction(f float64) bool { return f >= 0 && f <= math.MaxInt32 && !math.Signbit(f) }
