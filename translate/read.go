package translate

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"
)

// ReadRows reads the body of a Search Console response to a query with the one dimension by. It retains nothing of the body. A
// body without a rows member has no rows. Anything malformed is an error, never a shorter result.
func ReadRows(body []byte, by Dimension) (*Rows, error) {
	if len(body) > math.MaxInt32 {
		return nil, fmt.Errorf("upstream body has %d bytes, over 2 GiB", len(body))
	}
	// Without a copy of megabytes. The string is not used after this call, during which the body does not change.
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

// clip copies s if much of its capacity is unused: the capacity was estimated, and a cache may hold the rows for hours.
func clip[E any](s []E) []E {
	if waste := cap(s) - len(s); waste <= cap(s)/4 {
		return s
	}
	return append(make([]E, 0, len(s)), s...)
}

// lowerASCII folds country keys to lower case (spec: What the service does, 7), in case the upstream does not.
func lowerASCII(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
}

// readDocument reads the rows of a whole response and skips its other members. A response without rows still has
// responseAggregationType; a body that has neither is no response, whatever its HTTP status was.
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

// The members of a row. Keys, clicks and impressions are required; some search types have no position.
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

// largestCount is the largest count that a double, the upstream's type of counts, holds exactly.
const largestCount = 1 << 53

// count reads an integer, which the upstream, since it is a double, writes as 12, 12.0 or 1.2E1.
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
