package main

import "time"

// A size is how much of everything a run does.
type size struct {
	warmUp, before, after time.Duration // how long quiet tenants are alone: not measured, measured, and after the abuse
	tenants               int           // quiet tenants
	hitRate, coldRate     float64       // their requests a second, together
	timed                 bool          // whether what depends on the speed of the machine counts

	bigRows, floodRows int
	cacheFloods        int // maximum number of requests that fill the cache
	spenders           int // accounts with big sites: one for movers, the others for spenders
	spenderMovers      int // concurrent requests of each
	heads, headBytes   int
	idle               int
	unread             int           // requests for answers of half a megabyte that are not read: fewer than sara keeps connections
	hold               time.Duration // how long connections stay open: longer than a request may take to arrive, to see them end
	offices, desks     int           // accounts behind one address, and keys of each
	deskRequests       int           // of each key
	guessing           time.Duration // before the valid keys come
	guessRate          float64       // a second
	guesses, nonsense  int
	reported           time.Duration // until PostgreSQL's statistics are complete; 0 not to count queries
	redisMemory        string        // maxmemory
	rowFloods          int           // requests, of half a megabyte each
	longCopies         int           // of as much
	copyReads          int           // of them
	failures           int           // requests of each key
	unbudgeted         int           // requests of each kind

	steadyRate float64 // requests a second of the account whose day the mix uses up
	steadyADay int
}

func fullSize() size {
	return size{
		warmUp: 2 * time.Second, before: 10 * time.Second, after: 3 * time.Second, tenants: 8, hitRate: 100, coldRate: 4, timed: true,
		bigRows: 25_000, floodRows: 4_000, cacheFloods: 1_000, spenders: 11, spenderMovers: 20,
		heads: 12_500, headBytes: 32_000, idle: 16_384, unread: 1_200, hold: 12 * time.Second,
		offices: 7, desks: 9, deskRequests: 4, guessing: 10 * time.Second, guessRate: 10,
		guesses: 8_000, nonsense: 2_000, reported: 11 * time.Second,
		redisMemory: "32mb", rowFloods: 200, longCopies: 100, copyReads: 60_000, failures: 20, unbudgeted: 2_000, steadyRate: 3, steadyADay: 2_000,
	}
}

// shortSize is for the tests: it tries everything, in seconds.
func shortSize() size {
	return size{
		warmUp: 100 * time.Millisecond, before: 400 * time.Millisecond, after: 200 * time.Millisecond, tenants: 3, hitRate: 50, coldRate: 4,
		bigRows: 10_000, floodRows: 2_000, cacheFloods: 16, spenders: 3, spenderMovers: 3,
		heads: 1_000, headBytes: 32_000, idle: 2_000, unread: 200, hold: 300 * time.Millisecond,
		offices: 2, desks: 3, deskRequests: 2, guessing: time.Second, guessRate: 40, guesses: 400, nonsense: 100,
		redisMemory: "8mb", rowFloods: 60, longCopies: 20, copyReads: 500, failures: 20, unbudgeted: 100, steadyRate: 20, steadyADay: 20,
	}
}
