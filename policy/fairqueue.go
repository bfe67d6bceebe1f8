package policy

// A fairQueue holds look-ups that wait for a query. Networks take turns, so that one with many look-ups does not delay those of
// others; those of one network come in the order of arrival. It is not safe for concurrent use.
type fairQueue struct {
	lanes map[string]*lane // those that are not empty
	turns []*lane          // the same, the next one first
	size  int
}

type lane struct {
	network       string
	first, newest *keyLookup
	size          int
}

func (q *fairQueue) push(l *keyLookup) {
	of := q.lanes[l.network]
	if of == nil {
		of = &lane{network: l.network}
		if q.lanes == nil {
			q.lanes = map[string]*lane{}
		}
		q.lanes[l.network] = of
		q.turns = append(q.turns, of)
	}
	if of.size == 0 {
		of.first = l
	} else {
		of.newest.next = l
	}
	of.newest = l
	of.size++
	q.size++
}

// pop removes up to n look-ups and appends them to list.
func (q *fairQueue) pop(list []*keyLookup, n int) []*keyLookup {
	for ; n > 0 && q.size > 0; n-- {
		of := q.turns[0]
		q.turns = q.turns[1:]
		l := of.first
		list = append(list, l)
		of.first, l.next = l.next, nil
		of.size--
		q.size--
		if of.size == 0 {
			delete(q.lanes, of.network)
		} else {
			q.turns = append(q.turns, of)
		}
	}
	return list
}

// waiting returns how many look-ups of a network wait.
func (q *fairQueue) waiting(network string) int {
	if of := q.lanes[network]; of != nil {
		return of.size
	}
	return 0
}
