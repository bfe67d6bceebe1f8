package upstream

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// circuitTest is a set of circuits with a clock.
type circuitTest struct {
	*circuits
	clock settable
}

func newCircuitTest() *circuitTest {
	u := &circuitTest{}
	var m [levels]breakerMetrics
	for i := range m {
		m[i] = breakerMetrics{prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})}
	}
	u.circuits = newCircuits([...]string{"the property", "the connection", "the API"}, u.clock.Now, m)
	return u
}

// keyOf reads "connection/site", or "connection" for a call about no site.
func keyOf(text string) circuitKey {
	connection, site, _ := strings.Cut(text, "/")
	return circuitKey{connection, site}
}

// begin makes a call that must be admitted.
func (u *circuitTest) begin(t *testing.T, text string) (done func(result)) {
	t.Helper()
	done, err := u.allow(keyOf(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return done
}

// end makes calls that must be admitted, and end with r.
func (u *circuitTest) end(t *testing.T, r result, times int, texts ...string) {
	t.Helper()
	for range times {
		for _, text := range texts {
			u.begin(t, text)(r)
		}
	}
}

// wantRefused checks that calls are refused by a level, for wait.
func (u *circuitTest) wantRefused(t *testing.T, by string, wait time.Duration, texts ...string) {
	t.Helper()
	for _, text := range texts {
		_, err := u.allow(keyOf(text))
		wantRefusal(t, err, wait)
		if err == nil || !strings.Contains(err.Error(), by+" failed repeatedly") {
			t.Errorf("%s is refused with %v, not by %s", text, err, by)
		}
	}
}

// wantAdmitted checks that calls would be admitted.
func (u *circuitTest) wantAdmitted(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := u.check(keyOf(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func (u *circuitTest) wantOpen(t *testing.T, properties, connections, upstreams int) {
	t.Helper()
	if n := u.countOpen(); n != [...]int{properties, connections, upstreams} {
		t.Errorf("%v circuits are open, want %d of properties, %d of connections, %d of the upstream", n, properties, connections, upstreams)
	}
}

func TestFailingPropertyLeavesOthersAlone(t *testing.T) {
	u := newCircuitTest()
	u.end(t, failure, failuresToOpen, "a/1")
	u.wantRefused(t, "the property", openTime, "a/1")
	u.wantAdmitted(t, "a", "a/2", "b/1")
	u.wantOpen(t, 1, 0, 0)
	// Two failing properties of a connection do not open its circuit, however long they fail.
	u.end(t, failure, failuresToOpen, "a/2")
	for range 50 {
		u.clock.advance(openTime)
		u.end(t, failure, 1, "a/1", "a/2")
	}
	u.wantAdmitted(t, "a", "a/3", "b/1")
	u.wantOpen(t, 2, 0, 0)
}

func TestConnectionOpensAfterThreePropertiesFailInARow(t *testing.T) {
	u := newCircuitTest()
	u.end(t, failure, 2, "a/1", "a/2")
	u.end(t, failure, 1, "a/3")
	u.wantRefused(t, "the connection", openTime, "a", "a/1", "a/4")
	u.wantAdmitted(t, "b/1", "b")
	u.clock.advance(openTime)
	done := u.begin(t, "a/4")
	u.wantRefused(t, "the connection", time.Second, "a", "a/1", "a/5")
	done(failure)
	u.wantRefused(t, "the connection", openTime, "a/1")
	u.clock.advance(openTime)
	u.end(t, success, 1, "a/5")
	u.wantAdmitted(t, "a", "a/1", "a/2", "a/3", "a/4")
	u.wantOpen(t, 0, 0, 0)

	u = newCircuitTest()
	for range 20 { // a success of one property protects it from the failures of the others
		for _, site := range []string{"a/1", "a/2", "a/3"} {
			if done, err := u.allow(keyOf(site)); err == nil {
				done(failure)
			}
		}
		u.end(t, success, 1, "a/4")
		u.clock.advance(time.Second)
	}
	u.wantOpen(t, 3, 0, 0)
}

// The list of sites concerns the connection, and counts as one of its properties.
func TestListOfSitesUsesTheUpperLevels(t *testing.T) {
	u := newCircuitTest()
	u.end(t, failure, 20, "a")
	u.wantAdmitted(t, "a", "a/1")
	u.end(t, failure, 1, "a/1", "a/2")
	u.wantRefused(t, "the connection", openTime, "a", "a/3")
	u.clock.advance(openTime)
	u.end(t, success, 1, "a")
	u.wantAdmitted(t, "a/1", "a/2", "a/3")
}

func TestUpstreamOpensAtAFailureRateInThreeConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		calls  func(t *testing.T, u *circuitTest)
		isOpen bool
	}{
		{"ten failures in three connections", func(t *testing.T, u *circuitTest) {
			u.end(t, failure, 4, "a/1", "b/1")
			u.end(t, failure, 2, "c/1")
		}, true},
		{"nine", func(t *testing.T, u *circuitTest) { u.end(t, failure, 3, "a/1", "b/1", "c/1") }, false},
		{"two connections", func(t *testing.T, u *circuitTest) {
			u.end(t, failure, failuresToOpen, "a/1", "b/1")
		}, false},
		{"half of the calls", func(t *testing.T, u *circuitTest) {
			u.end(t, success, 3, "d/1", "d/2")
			u.end(t, failure, 2, "a/1", "b/1", "c/1")
		}, true},
		{"less than half", func(t *testing.T, u *circuitTest) {
			u.end(t, success, 7, "d/1")
			u.end(t, failure, 2, "a/1", "b/1", "c/1")
		}, false},
		{"within twenty seconds", func(t *testing.T, u *circuitTest) {
			u.end(t, failure, 3, "a/1", "b/1")
			u.clock.advance(windowTime - 1)
			u.end(t, failure, 4, "c/1")
		}, true},
		{"later", func(t *testing.T, u *circuitTest) {
			u.end(t, failure, 3, "a/1", "b/1")
			u.clock.advance(windowTime)
			u.end(t, failure, 4, "c/1")
		}, false},
		{"after many successes", func(t *testing.T, u *circuitTest) {
			u.end(t, success, 10*windowCalls, "d/1")
			for i := range windowCalls / 2 {
				u.end(t, failure, 1, fmt.Sprintf("%d/1", i))
			}
		}, true},
		{"three properties that fail for ever", func(t *testing.T, u *circuitTest) {
			for range 100 {
				u.end(t, failure, 1, "a/1", "b/1", "c/1")
				u.end(t, success, 10, "d/1")
				u.clock.advance(openTime)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newCircuitTest()
			c.calls(t, u)
			if !c.isOpen {
				u.wantAdmitted(t, "a", "e/1")
				return
			}
			u.wantRefused(t, "the API", openTime, "a", "e/1")
			u.clock.advance(openTime)
			done := u.begin(t, "e/1")
			u.wantRefused(t, "the API", time.Second, "a", "f/1")
			done(success)
			u.wantAdmitted(t, "a", "a/1", "b/1", "e/1", "f/1")
		})
	}
}

// down opens the circuits of three properties in as many connections, and that of the upstream.
func (u *circuitTest) down(t *testing.T) {
	t.Helper()
	u.end(t, failure, failuresToOpen-1, "a/1", "b/1")
	u.end(t, failure, 1, "c/1")
	u.begin(t, "a/1")(failure)
	u.wantOpen(t, 1, 0, 1)
}

// A failing probe of a property whose own circuit is open shows nothing about the upstream: the next call is its probe.
func TestProbeOfAFailingPropertyKeepsNoUpperLevelOpen(t *testing.T) {
	u := newCircuitTest()
	u.down(t)
	u.clock.advance(openTime)
	u.begin(t, "a/1")(failure)
	u.wantRefused(t, "the property", openTime, "a/1")
	u.wantAdmitted(t, "a", "b/1", "e/1")
	u.begin(t, "e/1")(failure) // this one does
	u.wantRefused(t, "the API", openTime, "b/1", "e/1", "f/1")
	u.clock.advance(openTime)
	u.begin(t, "a/1")(success)
	u.wantAdmitted(t, "a/1", "b/1", "e/1")
	u.wantOpen(t, 0, 0, 0)
}

func TestProbeThatDoesNotEndIsReplaced(t *testing.T) {
	u := newCircuitTest()
	u.down(t)
	u.clock.advance(openTime)
	hanging := u.begin(t, "a/1") // may hang for a reason of its own
	u.wantRefused(t, "the API", time.Second, "b/1", "e/1")
	u.clock.advance(suspectTime)
	u.wantRefused(t, "the property", time.Second, "a/1")
	second := u.begin(t, "e/1")
	u.wantRefused(t, "the API", time.Second, "f/1")
	u.clock.advance(probeTime - time.Nanosecond)
	u.wantRefused(t, "the API", time.Second, "f/1")
	u.clock.advance(time.Nanosecond)
	third := u.begin(t, "f/1")
	second(failure) // too late to count
	hanging(failure)
	u.wantRefused(t, "the API", time.Second, "g/1")
	third(success)
	u.wantAdmitted(t, "b/1", "e/1", "g/1")
}

// A probe that ends after its circuit was closed and opened again admits no call early.
func TestProbeOfAnEarlierOpeningDoesNotCount(t *testing.T) {
	for _, late := range []result{failure, inconclusive} {
		u := newCircuitTest()
		u.down(t)
		u.clock.advance(openTime)
		slow := u.begin(t, "e/1")
		u.clock.advance(probeTime)
		u.begin(t, "f/1")(inconclusive)
		slower := u.begin(t, "f/1")
		u.clock.advance(probeTime)
		old := u.begin(t, "g/1")
		slower(success)
		u.end(t, failure, 4, "h/1", "i/1")
		u.end(t, failure, 1, "j/1")
		u.clock.advance(time.Second)
		slow(late)
		old(late)
		u.wantRefused(t, "the API", openTime-time.Second, "k/1")
	}
}

func TestInconclusiveCallsCountOnNoLevel(t *testing.T) {
	u := newCircuitTest()
	u.end(t, inconclusive, 20, "a/1", "a/2", "a/3", "b/1", "c/1")
	u.down(t)
	u.clock.advance(openTime)
	u.end(t, inconclusive, 3, "a/1", "e/1")
	u.end(t, success, 1, "e/1")
	u.wantAdmitted(t, "b/1", "e/2")
}

func TestIdleCircuitsClose(t *testing.T) {
	u := newCircuitTest()
	u.down(t)
	u.end(t, failure, 0)
	u.clock.advance(openTime + idleTime - 1)
	u.wantOpen(t, 1, 0, 1)
	u.clock.advance(1)
	u.wantOpen(t, 0, 0, 0)
	u.end(t, failure, failuresToOpen-1, "a/1")
	u.clock.advance(idleTime)
	u.end(t, failure, failuresToOpen-1, "a/1")
	u.wantAdmitted(t, "a/1")
	u.end(t, failure, 1, "a/1")
	u.wantRefused(t, "the property", openTime, "a/1")
}

func TestCircuitsAreBounded(t *testing.T) {
	u := newCircuitTest()
	u.end(t, success, 1, "a/1", "b/1")
	if n := len(u.properties.entries) + len(u.connections.entries); n != 0 {
		t.Errorf("%d entries without a failure", n)
	}
	fill := func() {
		for i := range maxPropertyCircuits + 10 {
			u.begin(t, fmt.Sprintf("%d/%d", i%(maxConnectionCircuits+10), i))(failure)
			u.upstream.clear()
		}
	}
	for range 2 { // the second time, all entries are idle
		fill()
		if p, c := len(u.properties.entries), len(u.connections.entries); p != maxPropertyCircuits || c != maxConnectionCircuits {
			t.Errorf("%d properties and %d connections", p, c)
		}
		u.clock.advance(idleTime)
	}
}

func TestCircuitsAreSafeForConcurrentUse(t *testing.T) {
	u := newCircuitTest()
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for n := range 500 {
				if done, err := u.allow(circuitKey{fmt.Sprint(n % 4), fmt.Sprint(n % 5)}); err == nil {
					done(result((n + i) % 3))
				}
				u.clock.advance(100 * time.Millisecond)
				u.countOpen()
			}
		})
	}
	calls.Wait()
	u.clock.advance(openTime + idleTime)
	if open := u.countOpen(); open != [levels]int{} {
		t.Errorf("%v circuits are open long after the last call", open)
	}
}
