package upstream

import (
	"sync"
	"time"
)

const (
	// sitesToOpen is how many properties of a connection must fail in a row, with no success of another, to open its circuit.
	sitesToOpen = 3
	// suspectTime replaces probeTime on the levels above an open circuit: the call may fail for the property's own reason.
	suspectTime = time.Second
	// idleTime is after how long an unused circuit is dropped. A call with its retries takes at most callTimeout.
	idleTime = 5 * time.Minute

	maxPropertyCircuits   = 20_000
	maxConnectionCircuits = 5_000
)

// A level is one of the circuits on the path of a call, from the narrowest to the widest.
type level int

const (
	ofProperty level = iota
	ofConnection
	ofUpstream
)

const levels = int(ofUpstream) + 1

// A circuitKey names the property that a call is about, by connection and site. Without a site, the call is about the connection.
type circuitKey struct{ connection, site string }

// circuits are the circuit breakers of one kind of calls: one for each property, one for each connection and one for the whole
// upstream, so that only what fails is left alone. A call passes if all circuits on its path admit it. It is then
// the probe of every one that is open. It is safe for concurrent use.
//
// A success closes the circuits on its path. A failure counts for the property; for the connection only if the property's
// circuit was closed; for the upstream only if both were. So a property counts at most five failures above its own level, and
// its failing probe keeps no wider circuit open.
type circuits struct {
	hosts [levels]string // as error messages name them
	now   func() time.Time
	m     [levels]breakerMetrics

	mu          sync.Mutex
	properties  runs   // guarded by mu
	connections runs   // guarded by mu
	upstream    window // guarded by mu
}

func newCircuits(hosts [levels]string, now func() time.Time, m [levels]breakerMetrics) *circuits {
	return &circuits{
		hosts: hosts, now: now, m: m,
		properties:  runs{max: maxPropertyCircuits, sitesToOpen: 1},
		connections: runs{max: maxConnectionCircuits, sitesToOpen: sitesToOpen},
	}
}

// A passage is an admitted call.
type passage struct {
	circuits *circuits
	key      circuitKey
	probes   [levels]probe
}

// A probe is a call's role in an open circuit; the zero value is its role in a closed one.
type probe struct {
	circuit *circuit
	number  int
}

// allow admits a call, whose result must be reported to done, or returns the *Error to answer with. A caller that never calls
// done blocks the circuits for probeTime.
func (c *circuits) allow(key circuitKey) (done func(result), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	path := c.path(key, now)
	if refused, failed := c.refusal(path, now); failed != nil {
		c.m[refused].refused.Inc()
		return nil, failed
	}
	p := &passage{circuits: c, key: key}
	lease := probeTime
	for i, circuit := range path {
		if circuit != nil && circuit.state != closed {
			p.probes[i] = probe{circuit, circuit.admit(now, lease)}
			lease = suspectTime
		}
	}
	return p.done, nil
}

// check returns the error that allow would, without admitting a call.
func (c *circuits) check(key circuitKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if _, failed := c.refusal(c.path(key, now), now); failed != nil {
		return failed
	}
	return nil
}

// path returns the circuits of a call; nil is closed.
func (c *circuits) path(key circuitKey, now time.Time) (path [levels]*circuit) {
	if r := c.properties.get(key, now); r != nil {
		path[ofProperty] = &r.circuit
	}
	if r := c.connections.get(circuitKey{connection: key.connection}, now); r != nil {
		path[ofConnection] = &r.circuit
	}
	c.upstream.forget(now)
	path[ofUpstream] = &c.upstream.circuit
	return path
}

// refusal returns the error for a call that comes now, from the level that refuses it for the longest; nil if all admit it.
func (c *circuits) refusal(path [levels]*circuit, now time.Time) (by level, failed *Error) {
	var longest time.Duration
	for i, circuit := range path {
		if circuit == nil {
			continue
		}
		if wait := circuit.wait(now); wait > longest {
			by, longest = level(i), wait
		}
	}
	if longest == 0 {
		return 0, nil
	}
	return by, openError(c.hosts[by], longest)
}

func (p *passage) done(r result) {
	c := p.circuits
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch r {
	case success:
		c.succeeded(p, now)
	case failure:
		c.failed(p, now)
	default:
		for _, probe := range p.probes {
			if probe.circuit != nil {
				probe.circuit.end(probe.number, inconclusive, now)
			}
		}
	}
}

// succeeded closes the circuits on the path of a call. If the property's circuit has opened since the call was admitted, the answer is
// too old to close it; it does show that the others answer.
func (c *circuits) succeeded(p *passage, now time.Time) {
	if r := c.properties.get(p.key, now); r != nil && (r.state == closed || p.probes[ofProperty].circuit == &r.circuit) {
		c.properties.drop(p.key)
	}
	c.connections.drop(circuitKey{connection: p.key.connection})
	c.upstream.succeed(p.key.connection, now)
}

// failed counts a failure level by level, up to the first one whose circuit is open: that circuit explains the failure of the call, so
// the probes above are inconclusive.
func (c *circuits) failed(p *passage, now time.Time) {
	counts := true
	for i, probe := range p.probes {
		switch {
		case probe.circuit == nil:
			counts = counts && c.count(level(i), p.key, now)
		case counts:
			probe.circuit.end(probe.number, failure, now)
			counts = false
		default:
			probe.circuit.end(probe.number, inconclusive, now)
		}
	}
}

// count counts a failure on a level, and reports whether the circuit was closed.
func (c *circuits) count(on level, key circuitKey, now time.Time) bool {
	switch {
	case on == ofUpstream:
		return c.upstream.fail(key.connection, now)
	case on == ofConnection:
		return c.connections.fail(circuitKey{connection: key.connection}, key.site, now)
	case key.site != "":
		return c.properties.fail(key, key.site, now)
	}
	return true
}

// countOpen counts the open circuits by level.
func (c *circuits) countOpen() (n [levels]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	n[ofProperty], n[ofConnection] = c.properties.countOpen(now), c.connections.countOpen(now)
	c.upstream.forget(now)
	if c.upstream.state != closed {
		n[ofUpstream] = 1
	}
	return n
}
