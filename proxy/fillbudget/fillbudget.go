// Package fillbudget bounds the memory of fills: upstream calls whose rows are being read, kept and written to Redis. Portfolios have
// their own Budget.
//
// A Budget is a fair weighted semaphore over bytes. Before its upstream call, a fill claims the most that it may take; the
// claim shrinks to the actual size of the rows once they are read, and ends when they are in the cache.
//
// # Who is next
//
// Claims that do not fit wait. Turns go round robin between accounts, within an account between its keys, and within a key
// first in, first out. An account has at most Config.PerAccount fills at a time, so one account cannot take the whole
// budget. A large claim that does not fit is not overtaken by other large ones, so it cannot starve. An eighth of the
// bytes is reserved for small claims, so a request for a few rows does not wait for others' megabytes, not even for those of
// another key of its account, to which it leaves the last of the account's fills; while a large claim waits, small ones get only that
// eighth. Claims of background jobs are granted only while no request waits, and hold at most half of the bytes.
//
// # Refusals
//
// Load shedding: a claim is refused, with a *RefusedError, at once if too many are already waiting, or if it is large and the heap is
// above its watermark; otherwise after Config.Patience. A fill needs only one claim, and claims nothing else of the same Budget while it
// holds it, so claims cannot deadlock.
//
// A Budget is safe for concurrent use.
package fillbudget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultPerAccount is how many fills of one account run at a time.
const DefaultPerAccount = 8

// Config configures a Budget. Only Bytes is required.
type Config struct {
	Bytes             int64         // of all fills together
	PerAccount        int           // fills of one account at a time; 0: DefaultPerAccount
	Waiting           int           // claims that may wait at a time; 0: 1024
	WaitingPerAccount int           // claims of one account that may wait at a time; 0: 64
	Patience          time.Duration // the longest wait of a claim; 0: 10 s
	// Pressed reports whether the heap is above its watermark: then only small claims are granted, from their reserve. It is
	// called often, and with a lock held. nil: never.
	Pressed  func() bool
	Registry prometheus.Registerer // nil: no metrics
}

// A Claim is what a fill needs.
type Claim struct {
	Account string // at most Config.PerAccount of its fills run
	Key     string // the API key; keys of an account take turns
	// Request names the request if it needs several fills: they are granted consecutively, so that few requests are half done.
	Request string
	Bytes   int64 // the most that the fill may hold; capped at what the budget can ever grant
	// Background is set for jobs, which yield to requests. They have no limit per account.
	Background bool
}

// Budget is the weighted semaphore.
type Budget struct {
	config  Config
	reserve int64 // part of the bytes, for small claims
	metrics *metrics

	mu         sync.Mutex // guards the fields below
	used       int64      // bytes granted
	small      int64      // of used: by small claims
	background int64      // of used: by jobs
	running    map[string]int
	requests   turns
	jobs       turns
	lookAgain  bool // a dispatch is due because the heap was above its watermark
}

// New returns a Budget.
func New(c Config) (*Budget, error) {
	if c.Bytes <= 0 {
		return nil, fmt.Errorf("BUG: a fill budget of %d bytes", c.Bytes)
	}
	c.PerAccount = cmp.Or(c.PerAccount, DefaultPerAccount)
	c.Waiting = cmp.Or(c.Waiting, 1024)
	c.WaitingPerAccount = cmp.Or(c.WaitingPerAccount, 64)
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	if c.Pressed == nil {
		c.Pressed = func() bool { return false }
	}
	const reserved = 8
	b := &Budget{config: c, reserve: c.Bytes / reserved, running: make(map[string]int)}
	var err error
	if b.metrics, err = newMetrics(c.Registry, b); err != nil {
		return nil, err
	}
	return b, nil
}

// Acquire waits until a claim is granted. The error is a *RefusedError, or wraps that of ctx if ctx was canceled.
func (b *Budget) Acquire(ctx context.Context, c Claim) (*Grant, error) {
	w := b.waiter(c)
	if reason := b.enter(w); reason != "" {
		return nil, b.refuse(reason)
	}
	patience := time.NewTimer(b.config.Patience)
	defer patience.Stop()
	select {
	case <-w.granted:
		return w.grant, nil
	case <-patience.C:
	case <-ctx.Done():
	}
	switch {
	case !b.leave(w): // it was granted at the same moment
		return w.grant, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, fmt.Errorf("wait for memory: %w", context.Cause(ctx))
	}
	return nil, b.refuse(reasonPatience)
}

// waiter returns a claim in the form that the queue holds.
func (b *Budget) waiter(c Claim) *waiter {
	const small = 4 // how many of the largest small claims fit into the reserve
	w := &waiter{account: c.Account, key: c.Key, request: c.Request, granted: make(chan struct{})}
	g := &Grant{budget: b, account: c.Account, background: c.Background}
	g.bytes = max(0, min(c.Bytes, b.config.Bytes-b.reserve))
	if g.small = g.bytes <= b.reserve/small; c.Background {
		g.bytes = min(g.bytes, b.config.Bytes/2)
	}
	w.grant = g
	return w
}

// enter puts a waiter into its queue and grants what can be granted. If it refuses instead, it returns the reason.
func (b *Budget) enter(w *waiter) (refusal string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.grant.small && b.config.Pressed() {
		return reasonMemory
	}
	queue := b.queue(w)
	queue.push(w)
	b.dispatch()
	full := b.requests.waiting+b.jobs.waiting > b.config.Waiting || queue.of(w.account) > b.config.WaitingPerAccount
	if full && queue.remove(w) {
		return reasonQueue
	}
	return ""
}

// leave removes a waiter from its queue. It reports false if the waiter was already granted.
func (b *Budget) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.queue(w).remove(w)
	if left {
		b.dispatch() // others may have been waiting behind it
	}
	return left
}

func (b *Budget) queue(w *waiter) *turns {
	if w.grant.background {
		return &b.jobs
	}
	return &b.requests
}

// dispatch grants everything that can be granted, in turn.
func (b *Budget) dispatch() {
	if b.requests.waiting+b.jobs.waiting == 0 {
		return
	}
	pressed := b.config.Pressed()
	for b.grantNext(&b.requests, pressed) {
	}
	for b.requests.waiting == 0 && b.grantNext(&b.jobs, pressed) {
	}
	if pressed && !b.lookAgain && b.requests.waiting+b.jobs.waiting > 0 {
		b.lookAgain = true
		time.AfterFunc(pressedPause, b.dispatchAgain)
	}
}

// pressedPause is the time between two checks of a heap that is above its watermark while claims wait. If no fill ends meanwhile, only
// these checks can grant the waiting claims once the heap has shrunk.
const pressedPause = 100 * time.Millisecond

func (b *Budget) dispatchAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookAgain = false
	b.dispatch()
}

// grantNext grants the next claim whose turn it is and that fits. It reports false if there is none. blocked is set if large
// claims must wait.
func (b *Budget) grantNext(queue *turns, blocked bool) bool {
	for w, inTurn := range queue.next() {
		g, places := w.grant, b.config.PerAccount
		if !inTurn {
			places-- // the last one is for the claim that it overtakes
		}
		switch {
		case !g.background && b.running[g.account] >= places:
		case !b.fits(g, blocked):
			blocked = blocked || !g.small
		default:
			queue.take(w, inTurn)
			b.add(g, g.bytes)
			if !g.background {
				b.running[g.account]++
			}
			close(w.granted)
			return true
		}
	}
	return false
}

// fits reports whether there is room for a grant. blocked is set if an earlier large claim waits, or the heap is above its watermark.
func (b *Budget) fits(g *Grant, blocked bool) bool {
	switch {
	case b.used+g.bytes > b.config.Bytes, g.background && b.background+g.bytes > b.config.Bytes/2:
		return false
	case g.small:
		return !blocked || b.small+g.bytes <= b.reserve
	}
	return !blocked && b.used-b.small+g.bytes <= b.config.Bytes-b.reserve
}

// add adds bytes to the usage counters that a grant counts in.
func (b *Budget) add(g *Grant, bytes int64) {
	b.used += bytes
	if g.small {
		b.small += bytes
	}
	if g.background {
		b.background += bytes
	}
}

// A Grant is a part of the budget, for one fill.
type Grant struct {
	budget            *Budget
	account           string
	bytes             int64 // guarded by budget.mu once granted
	small, background bool
	released          bool // guarded by budget.mu
}

// Shrink returns all but the given bytes to the budget, once it is known that the fill needs no more. A number larger than the
// grant changes nothing.
func (g *Grant) Shrink(bytes int64) {
	b := g.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if freed := g.bytes - max(bytes, 0); freed > 0 && !g.released {
		g.bytes -= freed
		b.add(g, -freed)
		b.dispatch()
	}
}

// Release ends the grant. Further calls do nothing.
func (g *Grant) Release() {
	b := g.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.released {
		return
	}
	g.released = true
	b.add(g, -g.bytes)
	if !g.background {
		if b.running[g.account]--; b.running[g.account] == 0 {
			delete(b.running, g.account)
		}
	}
	b.dispatch()
}
