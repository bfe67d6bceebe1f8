package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A modelCall is one call in the history of a model.
type modelCall struct {
	key      circuitKey
	admitted time.Time
	episodes [levels]*episode // the circuits that it probes
	ended    time.Time        // zero: in flight
	result   result
}

// An episode is the time from the opening of a circuit until it closes.
type episode struct {
	until time.Time
	probe *modelCall // in flight, else nil
}

// A model decides as circuits should, but slowly: it keeps every call, and recounts them for each decision.
type model struct {
	now   time.Time
	calls []*modelCall // in the order of admission
	ended []*modelCall // in the order of their ends
	open  map[string]*episode
	// counted are the calls that count on a level since its circuit last closed, by name.
	counted map[string][]*modelCall
}

// names are the circuits on the path of a call; empty: none.
func names(k circuitKey) (names [levels]string) {
	if k.site != "" {
		names[ofProperty] = k.connection + "/" + k.site
	}
	names[ofConnection], names[ofUpstream] = k.connection, "*"
	return names
}

// age drops what is idle.
func (m *model) age(name string) {
	if e := m.open[name]; e != nil && m.now.Sub(e.until) >= idleTime {
		m.close(name)
	}
	if n := len(m.counted[name]); name != "*" && m.open[name] == nil && n > 0 && m.now.Sub(m.counted[name][n-1].ended) >= idleTime {
		delete(m.counted, name)
	}
}

func (m *model) close(name string) {
	delete(m.open, name)
	delete(m.counted, name)
}

// wait is how long a call is refused, and by which level.
func (m *model) wait(k circuitKey) (longest time.Duration, by level) {
	for i, name := range names(k) {
		m.age(name)
		e := m.open[name]
		if e == nil || !e.until.After(m.now) {
			continue
		}
		wait := (e.until.Sub(m.now) + time.Second - 1).Truncate(time.Second)
		if e.probe != nil {
			wait = time.Second
		}
		if wait > longest {
			longest, by = wait, level(i)
		}
	}
	return longest, by
}

func (m *model) begin(k circuitKey) *modelCall {
	call := &modelCall{key: k, admitted: m.now}
	lease := probeTime
	for i, name := range names(k) {
		if e := m.open[name]; e != nil {
			call.episodes[i] = e
			e.probe, e.until = call, m.now.Add(lease)
			lease = suspectTime
		}
	}
	m.calls = append(m.calls, call)
	return call
}

func (m *model) end(call *modelCall, r result) {
	call.ended, call.result = m.now, r
	m.ended = append(m.ended, call)
	explained := false // by a narrower level
	for i, name := range names(call.key) {
		if name == "" {
			continue
		}
		probes := call.episodes[i] != nil
		if !probes && r != inconclusive && !explained { // only what it may count on is looked at
			m.age(name)
		}
		e := m.open[name]
		isLast := e != nil && e == call.episodes[i] && e.probe == call
		switch {
		case r == success && (level(i) != ofProperty || e == nil || e == call.episodes[i]):
			if level(i) != ofUpstream || e != nil {
				m.close(name)
			}
			if level(i) == ofUpstream {
				m.counted[name] = append(m.counted[name], call)
			}
		case r == success:
		case r == inconclusive || explained:
			if isLast {
				e.probe, e.until = nil, m.now
			}
		case probes:
			if isLast {
				e.probe, e.until = nil, m.now.Add(openTime)
			}
			explained = true
		case e != nil:
			explained = true
		default:
			m.counted[name] = append(m.counted[name], call)
			if m.opens(level(i), m.counted[name]) {
				m.open[name] = &episode{until: m.now.Add(openTime)}
			}
		}
	}
}

// opens decides from the calls that count whether a circuit opens.
func (m *model) opens(on level, calls []*modelCall) bool {
	sites, connections := map[string]bool{}, map[string]bool{}
	failures, recent := 0, 0
	for i, call := range calls {
		if on == ofUpstream && (len(calls)-i > windowCalls || m.now.Sub(call.ended) >= windowTime) {
			continue
		}
		recent++
		if call.result == failure {
			failures++
			sites[call.key.site], connections[call.key.connection] = true, true
		}
	}
	switch on {
	case ofProperty:
		return failures >= failuresToOpen
	case ofConnection:
		return failures >= failuresToOpen && len(sites) >= sitesToOpen
	}
	return recent >= minCalls && failures*2 >= recent && len(connections) >= connectionsToOpen
}

// The following promises are checked against the calls alone, not against the state of the model.

// promises checks the decision about a call that comes now.
func (m *model) promises(t *testing.T, k circuitKey, wait time.Duration, by string) {
	if wait == 0 {
		return
	}
	t.Helper()
	if wait < time.Second || wait > openTime {
		t.Errorf("Retry-After is %v", wait)
	}
	switch by {
	case "the property":
		if !m.failedInARow(func(c *modelCall) bool { return c.key == k }, failuresToOpen, 1) {
			t.Errorf("%v is refused without five failures in a row of its own", k)
		}
	case "the connection":
		if !m.failedInARow(func(c *modelCall) bool { return c.key.connection == k.connection }, failuresToOpen, sitesToOpen) ||
			m.answeredLast(k.connection) {
			t.Errorf("%v is refused although its connection answers", k)
		}
	default:
		if m.answeredLast("") {
			t.Errorf("%v is refused although the upstream answers", k)
		}
	}
	for _, c := range slices.Backward(m.calls) { // it is usually one of the last
		if c.ended.IsZero() && m.now.Sub(c.admitted) < probeTime || !c.ended.IsZero() && c.result == failure && m.now.Sub(c.ended) < openTime {
			return // a probe that is waited for, or a failure just before
		}
	}
	t.Errorf("%v is refused without a failure within %v or a probe under way", k, openTime)
}

// failedInARow reports whether calls ever failed in a row, at a number of sites.
func (m *model) failedInARow(about func(*modelCall) bool, times, at int) bool {
	n, sites := 0, map[string]bool{}
	for _, c := range m.ended {
		if !about(c) || c.result == inconclusive {
			continue
		}
		if c.result == success {
			n = 0
			clear(sites)
			continue
		}
		n++
		if sites[c.key.site] = true; n >= times && len(sites) >= at {
			return true
		}
	}
	return false
}

// answeredLast reports whether the last call of a connection, or of all, that ended conclusively was a success.
func (m *model) answeredLast(connection string) bool {
	for _, c := range slices.Backward(m.ended) {
		if (connection == "" || c.key.connection == connection) && c.result != inconclusive {
			return c.result == success
		}
	}
	return false
}

// oneProbe checks that each open circuit has at most one current probe.
func (m *model) oneProbe(t *testing.T, call *modelCall) {
	t.Helper()
	for i, e := range call.episodes {
		for _, other := range m.calls {
			if e != nil && other != call && other.ended.IsZero() && other.episodes[i] == e && m.now.Sub(other.admitted) < suspectTime {
				t.Errorf("%v and %v are both probes on level %d", other.key, call.key, i)
			}
		}
	}
}

// compare runs a sequence of calls, ends and clock steps on circuits and on the model: two bytes each.
func compare(t *testing.T, steps []byte) (opened [levels]bool) {
	t.Helper()
	u := newCircuitTest()
	m := &model{now: u.clock.Now(), open: map[string]*episode{}, counted: map[string][]*modelCall{}}
	type flight struct {
		done func(result)
		call *modelCall
	}
	var flights []flight
	for ; len(steps) >= 2; steps = steps[2:] {
		what, which := steps[0], int(steps[1])
		switch {
		case what < 120:
			k := circuitKey{connection: fmt.Sprint(which % 5)}
			if site := which / 5 % 6; site > 0 {
				k.site = fmt.Sprint(site)
			}
			done, err := u.allow(k)
			wait, by := m.wait(k)
			m.promises(t, k, wait, u.hosts[by])
			if err != nil || wait > 0 {
				wantRefusal(t, err, wait)
				if err != nil && !strings.Contains(err.Error(), u.hosts[by]+" failed") {
					t.Errorf("%v is refused with %v, want level %d", k, err, by)
				}
				opened[by] = true
				break
			}
			call := m.begin(k)
			m.oneProbe(t, call)
			flights = append(flights, flight{done, call})
		case what < 230 && len(flights) > 0:
			i := which % len(flights)
			r := [...]result{failure, failure, failure, failure, success, inconclusive}[int(what)%6]
			flights[i].done(r)
			m.end(flights[i].call, r)
			flights = append(flights[:i], flights[i+1:]...)
		case what >= 230:
			d := [...]time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, probeTime, openTime, windowTime, idleTime}[which%8]
			u.clock.advance(d)
			m.now = u.clock.Now()
		}
		if t.Failed() {
			return opened
		}
	}
	return opened
}

func FuzzCircuits(f *testing.F) {
	f.Add([]byte("0000000000zzzzzzzzzz"))
	// A probe of the upstream ends when its circuit has long been idle, and another call just before it.
	f.Add([]byte("000000x0x00000000200x0x000x0\xa00x00001000000x1x0x8\xf8700\xec7\xea7\xd70x700"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 2000 {
			t.Skip("the model is slow")
		}
		compare(t, steps)
	})
}

func TestCircuitsDecideAsTheModelDoes(t *testing.T) {
	var opened [levels]int
	sequences := uint64(500)
	if testing.Short() {
		sequences = 300
	}
	for seed := range sequences {
		random := rand.New(rand.NewPCG(seed, 1))
		steps := make([]byte, 1600)
		for i := range steps {
			steps[i] = byte(random.Uint32())
		}
		for i := 0; i < len(steps); i += 2 {
			if seed%2 == 0 && steps[i] < 120 {
				steps[i+1] = 5 + steps[i+1]%6 // few properties
			}
			// Few long steps of the clock, or nothing would stay open.
			if steps[i] >= 230 && steps[i+1]%8 > 4 && random.IntN(8) > 0 {
				steps[i+1] = byte(random.IntN(4))
			}
		}
		for level, isOpen := range compare(t, steps) {
			if isOpen {
				opened[level]++
			}
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	for level, n := range opened {
		if n < 20 {
			t.Errorf("level %d was open in %d sequences only", level, n)
		}
	}
}
