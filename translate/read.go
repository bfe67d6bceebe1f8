package translate

import (
	"errors"
	"fmt"
	"math"
)

// readBody adds the rows of a body that a window has as a whole or in part.
func (r *Rows) readBody(w *bodyWindow, by Dimension) error {
	w.dated = by.isGrid()
	err := r.readDocument(w)
	if err == nil {
		if _, err = w.peek(); err == nil && w.at < len(w.text) {
			err = ErrSyntax
		}
	}
	if err != nil {
		return fmt.Errorf("upstream body, after %d %s and %d bytes: %w", r.Len(), oneOrMore(r.Len(), "row", "rows"), w.position(), err)
	}
	if by == ByCountry || by == ByDayAndCountry {
		for _, chunk := range r.keys.chunks {
			lowerASCII(chunk)
		}
	}
	return nil
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
// responseAggregationType; a body that has neither is not a response, whatever its HTTP status was.
func (r *Rows) readDocument(w *bodyWindow) error {
	listed, aggregated := false, false
	err := w.list('{', '}', func() error {
		var m member
		err := w.whole(func() error {
			name, err := w.name()
			m = memberOf(name)
			return err
		})
		switch {
		case err != nil:
			return err
		case m == rowsMember && listed:
			return errors.New("there are rows twice")
		case m == rowsMember:
			listed = true
			return w.list('[', ']', func() error { return r.readRows(w) })
		case m == aggregationMember:
			aggregated = true
			return w.whole(func() error { return r.traits.readAggregation(&w.scanner) })
		case m == metadataMember:
			return w.whole(func() error { return r.traits.readMetadata(&w.scanner) })
		}
		return w.whole(w.skip)
	})
	if err == nil && !listed && !aggregated {
		err = errors.New("it has neither rows nor responseAggregationType")
	}
	return err
}

// A member is one of a response that is read.
type member uint8

const (
	otherMember member = iota
	rowsMember
	aggregationMember
	metadataMember
)

func memberOf(name string) member {
	switch name {
	case "rows":
		return rowsMember
	case "responseAggregationType":
		return aggregationMember
	case "metadata":
		return metadataMember
	}
	return otherMember
}

// readAggregation reads a responseAggregationType: byPage, byProperty or one of other search types.
func (t *traits) readAggregation(s *scanner) error {
	if s.next() != '"' {
		return s.skip()
	}
	raw, _, err := s.str()
	t.byPage = raw == "byPage"
	return err
}

// readMetadata reads metadata. The wire has firstIncompleteDate; Google's reference page writes it with underscores.
func (t *traits) readMetadata(s *scanner) error {
	if s.next() != '{' {
		return s.skip()
	}
	return s.object(func(name string) error {
		if name != "firstIncompleteDate" && name != "first_incomplete_date" || s.next() != '"' {
			return s.skip()
		}
		raw, _, err := s.str()
		if err != nil {
			return err
		}
		if t.incomplete, err = ParseDate(raw); err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
		return nil
	})
}

// The members of a row. Keys, clicks and impressions are required; some search types have no position. A ctr is clicks / impressions,
// so requests leave it out (upstream.Gateway.Query).
const (
	sawKeys = 1 << iota
	sawClicks
	sawImpressions
	sawCTR
	sawPosition
)

// readRows reads the usual rows that the window has, and then at most one row of another form. It returns at a row that no comma
// follows.
func (r *Rows) readRows(w *bodyWindow) error {
	for {
		key, m, ok := w.usualRow()
		if !ok {
			return w.whole(func() error { return r.readRow(w) })
		}
		r.add(key, m)
		if !w.consume(",") {
			return nil
		}
	}
}

// readRow reads a row, and adds it if the window has all of it.
func (r *Rows) readRow(w *bodyWindow) error {
	if key, m, ok := w.usualRow(); ok {
		r.add(key, m)
		return nil
	}
	var m Metrics
	var key rowKey
	s, seen := &w.scanner, 0
	err := s.object(func(name string) error {
		member, err := s.rowMember(name, &key, &m)
		if seen&member != 0 {
			err = errors.New("it is there twice")
		}
		seen |= member
		if err != nil && !w.cut() {
			return fmt.Errorf("member %.40q: %w", name, err)
		}
		return err
	})
	if err != nil || w.cut() {
		return err
	}
	if required := sawKeys | sawClicks | sawImpressions; seen&required != required {
		return errors.New("a row without keys, clicks or impressions")
	}
	if seen&sawCTR == 0 {
		if err := m.setCTR(); err != nil {
			return err
		}
	}
	r.add(key, m)
	return nil
}

// rowMember reads the value of a member of a row into key or m. The result is its bit of seen, 0 for a member that is skipped.
func (s *scanner) rowMember(name string, key *rowKey, m *Metrics) (member int, err error) {
	switch name {
	case "keys":
		*key, err = s.key()
		return sawKeys, err
	case "clicks":
		m.Clicks, err = s.count()
		return sawClicks, err
	case "impressions":
		m.Impressions, err = s.count()
		return sawImpressions, err
	case "ctr":
		m.CTR, err = s.fraction()
		return sawCTR, err
	case "position":
		m.Position, err = s.fraction()
		return sawPosition, err
	}
	return 0, s.skip()
}

// setCTR sets the ctr that the upstream computes. It is an error if that is beyond the range of a ctr.
func (m *Metrics) setCTR() error {
	if m.CTR = m.quotient(); !isFraction(m.CTR) {
		return errNoFraction
	}
	return nil
}

func (r *Rows) add(key rowKey, m Metrics) {
	r.keys.ends, r.metrics = grown(r.keys.ends), append(grown(r.metrics), m)
	r.keys.end(key.appendTo(r.keys.room(key.longest())))
}

// largestCount is the largest count that a double, the upstream's type of counts, holds exactly.
const largestCount = 1 << 53

var (
	errNoCount    = errors.New("it is not a number from 0 to 2^53")
	errNoFraction = errors.New("it is not a number in its range")
)

// count reads an integer, which the upstream, since it is a double, writes as 12, 12.0 or 1.2E1.
func (s *scanner) count() (int64, error) {
	f, err := s.number()
	if err != nil || !(f >= 0 && f <= largestCount) {
		return 0, errNoCount
	}
	return int64(math.Round(f)), nil
}

func (s *scanner) fraction() (float64, error) {
	f, err := s.number()
	if err != nil || !isFraction(f) {
		return 0, errNoFraction
	}
	return f, nil
}

// isFraction reports whether f can be a ctr or a position: from 0 to the largest int32, but not -0. The bits of such floats are in their
// order, and below those of all others.
func isFraction(f float64) bool { return math.Float64bits(f) <= math.Float64bits(math.MaxInt32) }
