package fillbudget

import (
	"iter"
	"slices"
)

// A waiter is a waiting claim.
type waiter struct {
	account, key string
	request      string // "": none
	grant        *Grant
	granted      chan struct{} // closed once the grant is made
}

// turns are the waiting claims, in two levels of round robin: accounts, and the keys of an account. After a turn, both go to
// the end. The queues are short (Config.Waiting), so slices suffice.
type turns struct {
	accounts []*account
	waiting  int
}

// account has the waiting claims of an account, at least one.
type account struct {
	name    string
	keys    []*key
	waiting int
}

// key has the waiting claims of a key, at least one.
type key struct {
	name   string
	claims []*waiter
}

// of returns how many claims of an account are waiting.
func (t *turns) of(name string) int {
	if i := t.index(name); i >= 0 {
		return t.accounts[i].waiting
	}
	return 0
}

func (t *turns) index(name string) int {
	return slices.IndexFunc(t.accounts, func(a *account) bool { return a.name == name })
}

func (a *account) index(name string) int {
	return slices.IndexFunc(a.keys, func(k *key) bool { return k.name == name })
}

// push adds a waiter to the end of its queue.
func (t *turns) push(w *waiter) {
	i := t.index(w.account)
	if i < 0 {
		i = len(t.accounts)
		t.accounts = append(t.accounts, &account{name: w.account})
	}
	a := t.accounts[i]
	j := a.index(w.key)
	if j < 0 {
		j = len(a.keys)
		a.keys = append(a.keys, &key{name: w.key})
	}
	a.keys[j].claims = append(a.keys[j].claims, w)
	a.waiting++
	t.waiting++
}

// next yields the next claim of each account, which is in turn, then that of the second key of each, which is not, and so on. A loop that
// takes or removes one must end.
func (t *turns) next() iter.Seq2[*waiter, bool] {
	return func(yield func(w *waiter, inTurn bool) bool) {
		for n, more := 0, true; more; n++ {
			more = false
			for _, a := range t.accounts {
				if n >= len(a.keys) {
					continue
				}
				if more = true; !yield(a.keys[n].claims[0], n == 0) {
					return
				}
			}
		}
	}
}

// take removes a claim that next has yielded, and moves its key to the end, and its account if the claim is in turn. If the key has
// another claim for the same request, that one is its next, and the key stays in its place.
func (t *turns) take(w *waiter, inTurn bool) {
	t.remove(w)
	i := t.index(w.account)
	if i < 0 {
		return
	}
	a := t.accounts[i]
	if inTurn {
		t.accounts = append(slices.Delete(t.accounts, i, i+1), a)
	}
	j := a.index(w.key)
	if j < 0 {
		return
	}
	k := a.keys[j]
	n := slices.IndexFunc(k.claims, func(other *waiter) bool { return w.request != "" && other.request == w.request })
	if n >= 0 {
		sibling := k.claims[n]
		k.claims = slices.Insert(slices.Delete(k.claims, n, n+1), 0, sibling)
		return
	}
	a.keys = append(slices.Delete(a.keys, j, j+1), k)
}

// remove removes a waiter from its queue. It reports false if the waiter is not there.
func (t *turns) remove(w *waiter) bool {
	i := t.index(w.account)
	if i < 0 {
		return false
	}
	a := t.accounts[i]
	j := a.index(w.key)
	if j < 0 {
		return false
	}
	k := a.keys[j]
	n := slices.Index(k.claims, w)
	if n < 0 {
		return false
	}
	k.claims = slices.Delete(k.claims, n, n+1)
	a.waiting--
	t.waiting--
	if len(k.claims) == 0 {
		a.keys = slices.Delete(a.keys, j, j+1)
	}
	if len(a.keys) == 0 {
		t.accounts = slices.Delete(t.accounts, i, i+1)
	}
	return true
}
