package upstream

import (
	"slices"
	"time"
)

// The circuit of the whole upstream opens when at least half of the last calls have failed, in several connections. The last
// calls are bounded by number as well as by time: under heavy traffic, an outage should not have to outweigh the
// successes of all preceding seconds.
const (
	windowTime        = 20 * time.Second
	windowCalls       = 100
	minCalls          = 10
	connectionsToOpen = 3
)

// window is the circuit of the whole upstream and its last calls. The zero value is closed.
type window struct {
	circuit
	calls [windowCalls]sample // a ring
	next  int
}

// A sample is how a call ended; the zero value is too old to count.
type sample struct {
	at         time.Time
	connection string
	failed     bool
}

// succeed counts an answer, which closes the circuit.
func (w *window) succeed(connection string, now time.Time) {
	if w.state != closed {
		w.clear()
	}
	w.add(sample{now, connection, false})
}

// fail counts a failed call, and reports whether the circuit was closed.
func (w *window) fail(connection string, now time.Time) bool {
	w.forget(now)
	if w.state != closed {
		return false
	}
	w.add(sample{now, connection, true})
	if w.isFailing(now) {
		w.trip(now)
	}
	return true
}

// forget closes a circuit that has not been used for a long time.
func (w *window) forget(now time.Time) {
	if w.state != closed && now.Sub(w.until) >= idleTime {
		w.clear()
	}
}

func (w *window) clear() {
	w.state, w.calls = closed, [windowCalls]sample{}
}

func (w *window) add(o sample) {
	w.calls[w.next] = o
	w.next = (w.next + 1) % windowCalls
}

// isFailing reports whether at least half of the calls have failed, in several connections.
func (w *window) isFailing(now time.Time) bool {
	calls, failures := 0, 0
	var connections []string
	for _, o := range w.calls {
		if now.Sub(o.at) >= windowTime {
			continue
		}
		calls++
		if !o.failed {
			continue
		}
		failures++
		if len(connections) < connectionsToOpen && !slices.Contains(connections, o.connection) {
			connections = append(connections, o.connection)
		}
	}
	return calls >= minCalls && 2*failures >= calls && len(connections) >= connectionsToOpen
}
