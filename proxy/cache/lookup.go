package cache

import (
	"time"

	"sara/translate"
)

// lookup is a request that memory did not answer, with its keys.
type lookup struct {
	Request
	all       []candidate // that may answer
	own       *candidate  // the first of them
	others    []candidate // the sibling, if there is one
	flightKey string
	lease     string    // the key of the lease in Redis
	began     time.Time // in real time, since it bounds the time spent on Redis

	// Memory for the fields above and for a query beside them, so that a lookup takes a single allocation.
	pair   [2]candidate
	beside [1]candidate
}

// candidate is a query whose rows may answer a request.
type candidate struct {
	query    translate.Query
	key      string
	place    string // the additional data of a value; it ends with the key
	redisKey string
}

func newLookup(r *Request) *lookup {
	l := &lookup{Request: *r, began: time.Now()}
	all := l.pair[:1]
	l.pair[0], l.lease = candidateOf(r.PropertyID, &r.Query, leaseSuffix)
	if sibling, ok := r.Query.Sibling(); ok {
		l.pair[1], _ = candidateOf(r.PropertyID, &sibling, "")
		all = l.pair[:]
	}
	l.lookFor(all)
	if l.flightKey = l.own.key; r.Bypass {
		l.flightKey = "bypass " + l.flightKey
	}
	return l
}

// lookFor sets the candidates, the lookup's own first.
func (l *lookup) lookFor(all []candidate) { l.all, l.own, l.others = all, &all[0], all[1:] }

// usualKey is enough stack space for most cache keys and Redis keys.
const usualKey = 256

// candidateOf returns a query with its keys, and its key in Redis with a suffix. They share one string.
func candidateOf(propertyID string, q *translate.Query, suffix string) (c candidate, suffixed string) {
	var buffer [2 * usualKey]byte
	text := appendKey(appendClear(buffer[:0]), propertyID, q)
	place := len(text)
	all := string(appendRedisKey(text, propertyID, text[clearSize:], suffix))
	suffixed = all[place:]
	return candidate{query: *q, key: all[clearSize:place], place: all[:place], redisKey: suffixed[:len(suffixed)-len(suffix)]}, suffixed
}
