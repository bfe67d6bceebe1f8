package lru

// The lists that an entry is in.
const (
	inQueue = iota // all entries
	inOwner        // those of its owner
)

// list is a doubly linked list of entries by insertion, whose links are in the entries, with the hand of SIEVE.
type list[K comparable, V any] struct {
	at             int // which links of an entry
	oldest, newest *entry[K, V]
	hand           *entry[K, V] // the next candidate for eviction; nil: the oldest
	len            int
}

type link[K comparable, V any] struct {
	older, newer *entry[K, V]
}

// push adds an entry as the newest.
func (l *list[K, V]) push(e *entry[K, V]) {
	e.links[l.at].older = l.newest
	if l.newest == nil {
		l.oldest = e
	} else {
		l.newest.links[l.at].newer = e
	}
	l.newest = e
	l.len++
}

func (l *list[K, V]) remove(e *entry[K, V]) {
	links := &e.links[l.at]
	if l.hand == e {
		l.hand = links.newer
	}
	if links.older == nil {
		l.oldest = links.newer
	} else {
		links.older.links[l.at].newer = links.newer
	}
	if links.newer == nil {
		l.newest = links.older
	} else {
		links.newer.links[l.at].older = links.older
	}
	*links = link[K, V]{}
	l.len--
}

// victim moves the hand to the next entry without a mark, clearing marks on its way. Since readers may set marks as fast as
// it clears them, it ends after one round, wherever it is.
func (l *list[K, V]) victim() *entry[K, V] {
	for range l.len {
		if l.hand == nil {
			l.hand = l.oldest
		}
		if !l.hand.visited.Load() {
			return l.hand
		}
		l.hand.visited.Store(false)
		l.hand = l.hand.links[l.at].newer
	}
	if l.hand == nil {
		l.hand = l.oldest
	}
	return l.hand
}
