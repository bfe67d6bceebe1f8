package upstream

import (
	"maps"
	"slices"
	"time"
)

// A run is a series of consecutive failed calls for one property or one connection, and the circuit that they open.
type run struct {
	circuit
	failures int
	sites    []string  // distinct failed sites, up to the number that opens the circuit
	last     time.Time // of the last failure
}

// isIdle reports whether the run is too old to count.
func (r *run) isIdle(now time.Time) bool {
	last := r.last
	if r.state != closed && r.until.After(last) {
		last = r.until
	}
	return now.Sub(last) >= idleTime
}

// runs are the runs of one level. A property or a connection whose last call succeeded has none. At the bound, no more are
// added: new failures are then handled only by the wider levels. The zero value has a bound of zero.
type runs struct {
	max         int
	sitesToOpen int // sites that must fail for a circuit to open

	entries map[circuitKey]*run
	swept   time.Time
}

// get returns the run of a key; nil if there is none.
func (s *runs) get(key circuitKey, now time.Time) *run {
	r := s.entries[key]
	if r != nil && r.isIdle(now) {
		delete(s.entries, key)
		return nil
	}
	return r
}

func (s *runs) drop(key circuitKey) { delete(s.entries, key) }

// fail counts a failed call, and reports whether the circuit of the key was closed.
func (s *runs) fail(key circuitKey, site string, now time.Time) bool {
	r := s.get(key, now)
	if r == nil {
		if r = s.add(key, now); r == nil {
			return true
		}
	}
	if r.state != closed {
		return false
	}
	r.failures, r.last = r.failures+1, now
	if len(r.sites) < s.sitesToOpen && !slices.Contains(r.sites, site) {
		r.sites = append(r.sites, site)
	}
	if r.failures >= failuresToOpen && len(r.sites) >= s.sitesToOpen {
		r.trip(now)
	}
	return true
}

// add makes a run; nil at the bound.
func (s *runs) add(key circuitKey, now time.Time) *run {
	if len(s.entries) >= s.max && now.Sub(s.swept) >= openTime {
		s.sweep(now)
	}
	if len(s.entries) >= s.max {
		return nil
	}
	if s.entries == nil {
		s.entries = make(map[circuitKey]*run)
	}
	r := &run{last: now}
	s.entries[key] = r
	return r
}

// sweep drops the idle runs. At the bound it costs about a millisecond.
func (s *runs) sweep(now time.Time) {
	s.swept = now
	maps.DeleteFunc(s.entries, func(_ circuitKey, r *run) bool { return r.isIdle(now) })
}

func (s *runs) countOpen(now time.Time) (n int) {
	s.sweep(now)
	for _, r := range s.entries {
		if r.state != closed {
			n++
		}
	}
	return n
}
