package fillbudget

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the slow reference of a Budget: it keeps the claims in one list, and finds the next one by counting turns.
type model struct {
	bytes      int64
	perAccount int
	waiting    []*modelClaim
	running    []*modelClaim
	turn       int
	pressed    bool
	accounts   map[string]int // the turn at which it went to the end of its queue
	keys       map[string]int
}

type modelClaim struct {
	id    int
	claim Claim
	held  int64 // after it shrank
}

func (m *model) size(c Claim) int64 {
	size := min(c.Bytes, m.bytes-m.bytes/8)
	if c.Background {
		size = min(size, m.bytes/2)
	}
	return size
}

func (m *model) isSmall(c Claim) bool { return min(c.Bytes, m.bytes-m.bytes/8) <= m.bytes/8/4 }

func (m *model) held(match func(Claim) bool) (sum int64) {
	for _, r := range m.running {
		if match(r.claim) {
			sum += r.held
		}
	}
	return sum
}

func (m *model) add(id int, c Claim) {
	m.touch(c, false, false)
	m.waiting = append(m.waiting, &modelClaim{id: id, claim: c, held: m.size(c)})
}

// touch moves an account and a key to the end of their queues: after a turn, or when they begin to wait. The turn of a key is that of its
// account only if the key is its next one.
func (m *model) touch(c Claim, served, inTurn bool) {
	m.turn++
	lane := fmt.Sprint(c.Background, c.Account)
	waits := func(match func(Claim) bool) bool {
		return slices.ContainsFunc(m.waiting, func(w *modelClaim) bool { return w.claim.Background == c.Background && match(w.claim) })
	}
	if inTurn || !waits(func(o Claim) bool { return o.Account == c.Account }) {
		m.accounts[lane] = m.turn
	}
	if served || !waits(func(o Claim) bool { return o.Account == c.Account && o.Key == c.Key }) {
		m.keys[lane+"/"+c.Key] = m.turn
	}
}

// next returns the claim to grant, nil if there is none, and whether it is the turn of its key.
func (m *model) next() (w *modelClaim, inTurn bool) {
	requests := slices.ContainsFunc(m.waiting, func(w *modelClaim) bool { return !w.claim.Background })
	if w, inTurn = m.nextOf(false); w != nil || requests {
		return w, inTurn
	}
	return m.nextOf(true)
}

func (m *model) nextOf(background bool) (w *modelClaim, inTurn bool) {
	heads := map[string][]*modelClaim{} // of the keys of each account
	for _, w := range m.waiting {
		lane := fmt.Sprint(background, w.claim.Account)
		if w.claim.Background == background &&
			!slices.ContainsFunc(heads[lane], func(h *modelClaim) bool { return h.claim.Key == w.claim.Key }) {
			heads[lane] = append(heads[lane], w)
		}
	}
	lanes := slices.SortedFunc(maps.Keys(heads), func(a, b string) int { return m.accounts[a] - m.accounts[b] })
	longest := 0
	for lane, of := range heads {
		slices.SortFunc(of, func(a, b *modelClaim) int { return m.keys[lane+"/"+a.claim.Key] - m.keys[lane+"/"+b.claim.Key] })
		longest = max(longest, len(of))
	}
	blocked := m.pressed
	for n := range longest {
		for _, lane := range lanes {
			if n >= len(heads[lane]) {
				continue
			}
			w := heads[lane][n]
			if !background && m.fills(w.claim.Account) >= m.perAccount-min(n, 1) {
				continue
			}
			if m.fits(w, blocked) {
				return w, n == 0
			}
			blocked = blocked || !m.isSmall(w.claim)
		}
	}
	return nil, false
}

// fills returns how many fills of an account run.
func (m *model) fills(account string) (n int) {
	for _, r := range m.running {
		if !r.claim.Background && r.claim.Account == account {
			n++
		}
	}
	return n
}

func (m *model) fits(w *modelClaim, blocked bool) bool {
	all := m.held(func(Claim) bool { return true })
	small := m.held(m.isSmall)
	jobs := m.held(func(c Claim) bool { return c.Background })
	if all+w.held > m.bytes || w.claim.Background && jobs+w.held > m.bytes/2 {
		return false
	}
	if m.isSmall(w.claim) {
		return !blocked || small+w.held <= m.bytes/8
	}
	return !blocked && all-small+w.held <= m.bytes-m.bytes/8
}

// grant grants what can be granted and returns the IDs.
func (m *model) grant() (ids []int) {
	for w, inTurn := m.next(); w != nil; w, inTurn = m.next() {
		m.waiting = slices.DeleteFunc(m.waiting, func(o *modelClaim) bool { return o == w })
		m.running = append(m.running, w)
		sibling := slices.IndexFunc(m.waiting, func(o *modelClaim) bool {
			return o.claim.Request != "" && o.claim.Request == w.claim.Request && o.claim.Account == w.claim.Account &&
				o.claim.Key == w.claim.Key && o.claim.Background == w.claim.Background
		})
		key := fmt.Sprint(w.claim.Background, w.claim.Account) + "/" + w.claim.Key
		turn := m.keys[key]
		m.touch(w.claim, true, inTurn)
		if sibling >= 0 {
			next := m.waiting[sibling]
			m.waiting = slices.Insert(slices.Delete(m.waiting, sibling, sibling+1), 0, next)
			m.keys[key] = turn
		}
		ids = append(ids, w.id)
	}
	return ids
}

// FuzzBudget compares a Budget with the model, step by step, and checks its bounds.
func FuzzBudget(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		const bytes, perAccount = 1000, 3
		var m *model
		b := newBudget(t, Config{Bytes: bytes, PerAccount: perAccount, Pressed: func() bool { return m.pressed }})
		m = &model{bytes: bytes, perAccount: perAccount, accounts: map[string]int{}, keys: map[string]int{}}
		waiting, running := map[int]*waiter{}, map[int]*waiter{}
		for step := range 300 {
			switch choice := random.IntN(10); {
			case random.IntN(20) == 0:
				m.pressed = !m.pressed
				b.mu.Lock()
				b.dispatch()
				b.mu.Unlock()
			case choice < 4 || len(waiting)+len(running) == 0:
				c := Claim{Account: string('a' + rune(random.IntN(4))), Key: string('k' + rune(random.IntN(3))),
					Bytes: size(random, seed), Background: random.IntN(5) == 0,
					Request: []string{"", "r1", "r2"}[random.IntN(3)]}
				w := b.waiter(c)
				reason := b.enter(w)
				if refused := m.pressed && !m.isSmall(c); refused != (reason == reasonMemory) || reason != "" && !refused {
					t.Fatalf("step %d: %q", step, reason)
				}
				if reason == "" {
					waiting[step] = w
					m.add(step, c)
				}
			case choice < 5 && len(waiting) > 0:
				id := pick(random, waiting)
				if !b.leave(waiting[id]) {
					t.Fatalf("step %d: %d does not wait", step, id)
				}
				delete(waiting, id)
				m.waiting = slices.DeleteFunc(m.waiting, func(w *modelClaim) bool { return w.id == id })
			case choice < 7 && len(running) > 0:
				id, size := pick(random, running), random.Int64N(400)
				running[id].grant.Shrink(size)
				i := slices.IndexFunc(m.running, func(r *modelClaim) bool { return r.id == id })
				m.running[i].held = min(m.running[i].held, size)
			case len(running) > 0:
				id := pick(random, running)
				running[id].grant.Release()
				delete(running, id)
				m.running = slices.DeleteFunc(m.running, func(r *modelClaim) bool { return r.id == id })
			}
			for _, id := range m.grant() {
				select {
				case <-waiting[id].granted:
				default:
					t.Fatalf("step %d: %d is not granted", step, id)
				}
				running[id] = waiting[id]
				delete(waiting, id)
			}
			for id, w := range waiting {
				select {
				case <-w.granted:
					t.Fatalf("step %d: %d is granted", step, id)
				default:
				}
			}
			if held := m.held(func(Claim) bool { return true }); b.used != held || held > bytes {
				t.Fatalf("step %d: %d bytes in use, want %d", step, b.used, held)
			}
		}
		for _, w := range waiting {
			if !b.leave(w) { // it was granted when another one left
				w.grant.Release()
			}
		}
		for _, w := range running {
			w.grant.Release()
		}
		if left := len(b.running) + len(b.requests.accounts) + len(b.jobs.accounts); b.used != 0 || left != 0 {
			t.Errorf("in the end %d bytes are in use, and %d accounts are left", b.used, left)
		}
	})
}

// size returns the bytes of a claim. Small ones are often as large as a small claim can be: four fill the reserve. With odd seeds most are small.
func size(random *rand.Rand, seed uint64) int64 {
	sizes := []int64{32, 300, 1200}
	if seed%2 == 1 {
		sizes = []int64{32, 32, 32, 32, 32, 32, 300, 1200}
	}
	most := sizes[random.IntN(len(sizes))]
	if most == 32 && random.IntN(2) == 0 {
		return most - 1
	}
	return random.Int64N(most)
}

// pick returns one of the IDs.
func pick(random *rand.Rand, from map[int]*waiter) int {
	var ids []int
	for id := range from {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[random.IntN(len(ids))]
}
