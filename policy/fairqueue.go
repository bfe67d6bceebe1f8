package policy

// A fairQueue holds look-ups that wait for a query. Networks take turns, so that one with many look-ups does not delay those of
// others; those of one network come in the order of arrival. It is not safe for concurrent use.
type fairQueue struct {
	lanes map[string]*lane // those that are not empty
	turns []*lane          // the same, the next one first
	size  int
}

type lane struct {
	network string
	waiting []*keyLookup
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
	of.waiting = append(of.waiting, l)
	q.size++
}

// pop removes up to n look-ups and appends them to list.
func (q *fairQueue) pop(list []*keyLookup, n int) []*keyLookup {
	for ; n > 0 && q.size > 0; n-- {
		next := q.turns[0]
		q.turns = q.turns[1:]
		list = append(list, next.waiting[0])
		next.waiting = next.waiting[1:]
		q.size--
		if len(next.waiting) == 0 {
			delete(q.lanes, next.network)
		} else {
			q.turns = append(q.turns, next)
		}
	}
	return list
}

// waiting returns how many look-ups of a network wait.
func (q *fairQueue) waiting(network string) int {
	if of := q.lanes[network]; of != nil {
		return len(of.waiting)
	}
	return 0
}
