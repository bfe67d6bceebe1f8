package cache

import (
	"errors"
	"slices"
	"sync"

	"sara/proxy/spans"
)

var errClosed = errors.New("the cache is closed")

// flights are the running fills of this process: singleflight, one flight per key. x/sync/singleflight is not enough, because a
// flight first looks into memory, may fail for only one waiter, and ends with Close.
type flights struct {
	mu      sync.Mutex
	byKey   map[string]*flight
	closed  bool
	running sync.WaitGroup // grows under mu, and never after closed is set
}

// flight is a fill that any number of requests wait for.
type flight struct {
	looked latch      // opens when the following fields are set
	copied *Entry     // the newest copy in Redis, however stale; nil: none
	failed bool       // the last refill of the copy failed before this flight
	span   spans.Span // of the fill

	done latch // opens when the outcome is there
	outcome
}

// outcome is the result of a fill.
type outcome struct {
	entry   *Entry
	status  Status // Filled, or how another replica's fill was found
	err     error
	shared  bool   // all waiters get the error
	refused bool   // Request.Reserve refused: all waiters of this process get the error
	encoded []byte // the error as ErrorCodec encodes it
	token   string // of the lease in Redis that this flight holds; "" for none
	settled func() // waits for a lease renewal in flight; nil: there is none
	release func() // releases what Request.Reserve reserved; nil: nothing
}

// Filling reports whether a fill is running in this process.
func (c *Cache) Filling() bool {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	return len(c.flights.byKey) > 0
}

// finish wakes the waiters of a flight. Later requests start a new one.
func (f *flights) finish(key string, finished *flight) {
	f.mu.Lock()
	delete(f.byKey, key)
	f.mu.Unlock()
	finished.done.open()
}

// close makes every new flight fail.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func finishedFlight(o outcome) *flight {
	f := &flight{outcome: o}
	f.looked.open()
	f.done.open()
	return f
}

// A latch opens once. Unlike a channel, it takes no memory unless a goroutine waits for it, which is rare for a flight that finds a copy.
// The zero value is closed.
type latch struct {
	mu     sync.Mutex // guards the following fields
	isOpen bool
	opened chan struct{} // made by the first call of wait
}

// open opens the latch. A goroutine that finds it open also sees what was written before it opened.
func (l *latch) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOpen = true
	if l.opened != nil {
		close(l.opened)
	}
}

// wasOpened reports whether the latch is open.
func (l *latch) wasOpened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOpen
}

// wait returns a channel that is closed once the latch is open.
func (l *latch) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		l.opened = make(chan struct{})
		if l.isOpen {
			close(l.opened)
		}
	}
	return l.opened
}

// get returns the running fill of a key; nil if there is none.
func (f *flights) get(key string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key]
}

// haveAny reports whether a fill of any of the queries is running.
func (f *flights) haveAny(queries []candidate) bool {
	return slices.ContainsFunc(queries, func(q candidate) bool { return f.get(q.key) != nil })
}

// A seat is a caller's place in a flight.
type seat struct {
	*flight      // nil: there is nothing to wait for
	leads   bool // the flight was started for this caller
}

// join returns a seat in the flight of a lookup. If it leads, the caller must look into Redis.
func (c *Cache) join(l *lookup) seat {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	if f := c.flights.byKey[l.flightKey]; f != nil {
		return seat{flight: f}
	}
	if c.flights.closed {
		return seat{finishedFlight(outcome{err: errClosed}), true}
	}
	if !l.Bypass {
		// Another flight may have finished since this caller checked.
		if found := c.fromMemory(&l.Request); found.Entry != nil && !found.Stale {
			return seat{finishedFlight(outcome{entry: found.Entry, status: HitMemory}), true}
		}
	}
	f := new(flight)
	if c.flights.byKey == nil {
		c.flights.byKey = map[string]*flight{}
	}
	c.flights.byKey[l.flightKey] = f
	c.flights.running.Add(1)
	return seat{f, true}
}
