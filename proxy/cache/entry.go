package cache

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"sara/translate"
)

// Entry is one copy of the upstream's rows. It is immutable.
type Entry struct {
	key         string // of the question that was asked
	rows        *translate.Rows
	filled      time.Time
	requestHash uint64
	id          uint64 // of the fill, the same in every replica

	failing atomic.Bool // the last refill of it failed for everybody, so the next one is waited for
}

// Rows returns the rows, which are read-only.
func (e *Entry) Rows() *translate.Rows { return e.rows }

// Filled returns when the upstream had answered.
func (e *Entry) Filled() time.Time { return e.filled }

// RequestHash returns the Question.RequestHash of the fill.
func (e *Entry) RequestHash() uint64 { return e.requestHash }

// appendKey appends the full key of a question: whose property, which site, and the canonical body. The lengths keep one
// part from running into the next.
func appendKey(dst []byte, propertyID string, q *translate.Query) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(propertyID)))
	dst = append(dst, propertyID...)
	dst = binary.AppendUvarint(dst, uint64(len(q.Site)))
	dst = append(dst, q.Site...)
	return q.AppendBody(dst)
}

// lookup is a question that memory did not settle, with its keys.
type lookup struct {
	Request
	own    candidate
	others []candidate // the sibling, if there is one
	flight string      // the key of its flight
	began  time.Time   // in real time, for what Redis may take of it
}

// candidate is a Query under which rows that answer may be found.
type candidate struct {
	query  translate.Query
	key    string
	shared string // its key in Redis
}

func newLookup(q *Request) *lookup {
	i := &lookup{Request: *q, own: newCandidate(q.PropertyID, q.Query), began: time.Now()}
	if sibling, ok := q.Query.Sibling(); ok {
		i.others = []candidate{newCandidate(q.PropertyID, sibling)}
	}
	i.flight = i.own.key
	if q.Bypass {
		i.flight = "bypass " + i.flight
	}
	return i
}

func newCandidate(propertyID string, q translate.Query) candidate {
	key := string(appendKey(nil, propertyID, &q))
	return candidate{query: q, key: key, shared: sharedKey(propertyID, key)}
}
