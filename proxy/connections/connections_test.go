package connections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// closable is a connection of which only the end matters.
type closable struct {
	net.Conn
	closed atomic.Bool
}

func (c *closable) Close() error { c.closed.Store(true); return nil }

// closable returns a new connection.
func (s *Set) closable(address string) *Conn {
	return &Conn{Conn: new(closable), set: s, Address: address}
}

// manualSet returns a set with a clock that the test moves.
func manualSet(limit, perNetwork int) (s *Set, clock *time.Duration) {
	clock = new(time.Duration)
	begun := time.Now()
	s = New(Config{Limit: limit, BehindProxy: perNetwork == 0, MaxRequest: 1 << 10, Now: func() time.Time { return begun.Add(*clock) },
		Registry: prometheus.NewRegistry()})
	s.perNetwork = perNetwork
	return s, clock
}

func TestLongestWaitingConnectionMakesRoom(t *testing.T) {
	s, clock := manualSet(3, 0)
	var open []*Conn
	for i := range 3 {
		c := s.closable(fmt.Sprint(i))
		if refused := s.admit(c); refused != "" {
			t.Fatal(refused)
		}
		c.waiting.Store(s.now())
		*clock += time.Second
		open = append(open, c)
	}
	open[0].waiting.Store(busy)
	if refused := s.admit(s.closable("new")); refused != "" {
		t.Errorf("there is no room: %s", refused)
	}
	for i, c := range open {
		if closed := c.Conn.(*closable).closed.Load(); closed != (i == 1) {
			t.Errorf("connection %d is closed: %t", i, closed)
		}
	}
	open[2].waiting.Store(s.now())
	*clock += evictAfter - 1
	if refused := s.admit(s.closable("early")); refused != refusedByTotal {
		t.Errorf("before a second has passed: %q", refused)
	}
	*clock++
	if refused := s.admit(s.closable("in time")); refused != "" || !open[2].Conn.(*closable).closed.Load() {
		t.Errorf("after a second: %q", refused)
	}
}

// Against a slow reference: whatever opens, closes, waits and works, the longest waiting connection of the full group is closed,
// one with a valid key only if there is no other.
func TestEvictionAgreesWithAReference(t *testing.T) {
	t.Parallel()
	type outcome struct {
		full    string
		evicted bool
	}
	outcomes := map[outcome]int{}
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 0))
		keyedOneIn := []int{1, 2, 50}[seed%3]
		size := []int{1, 6}[seed%2] // six times as many wait than a look remembers
		s, clock := manualSet(size*120, size*50)
		var open []*Conn
		for step := range 6000 {
			*clock += time.Duration(1 + random.IntN(4_000_000)) // no two wait since the same instant
			switch dice := random.IntN(10); {
			case dice < 6:
				c := s.closable(fmt.Sprintf("10.0.0.%d", random.IntN(1+random.IntN(4)))) // about half are from one address
				victim, full := expectedVictim(s, open, c.Address)
				refused := full
				if victim >= 0 {
					refused = ""
				}
				outcomes[outcome{full, victim >= 0}]++
				if got := s.admit(c); got != refused {
					t.Fatalf("seed %d, step %d: %q, want %q", seed, step, got, refused)
				}
				if refused == "" {
					c.waiting.Store(s.now())
					c.keyed.Store(random.IntN(keyedOneIn) == 0)
					open = append(open, c)
				}
				if victim >= 0 {
					if open[victim].waiting.Load() != evicted {
						t.Fatalf("seed %d, step %d: another connection was closed", seed, step)
					}
					open = append(open[:victim], open[victim+1:]...)
				}
			case dice < 7 && len(open) > 0:
				i := random.IntN(len(open))
				_ = open[i].Close()
				open = append(open[:i], open[i+1:]...)
			case len(open) > 0:
				c := open[random.IntN(len(open))]
				c.waiting.Store([]int64{busy, s.now()}[random.IntN(2)])
				if random.IntN(100*keyedOneIn) == 0 {
					c.MarkKeyed()
				}
			}
			if int(s.count()) != len(open) {
				t.Fatalf("seed %d, step %d: %v are open, want %d", seed, step, s.count(), len(open))
			}
		}
	}
	for _, full := range []string{refusedByTotal, refusedByAddress} {
		if outcomes[outcome{full, true}] < 100 || outcomes[outcome{full, false}] < 100 {
			t.Errorf("the connections are too few or too many to tell much: %v", outcomes)
		}
	}
}

// expectedVictim returns the bound that leaves no room for a connection from an address, if one does, and the index of the connection
// that must make room; -1 if none can.
func expectedVictim(s *Set, open []*Conn, address string) (victim int, full string) {
	same := 0
	for _, c := range open {
		if c.Address == address {
			same++
		}
	}
	switch {
	case same >= s.perNetwork:
		full = refusedByAddress
	case len(open) >= s.all.limit:
		full = refusedByTotal
	default:
		return -1, ""
	}
	victim = -1
	for i, c := range open {
		since := c.waiting.Load()
		if since <= 0 || s.now()-since < int64(evictAfter) || full == refusedByAddress && c.Address != address {
			continue
		}
		if victim < 0 || !c.keyed.Load() && open[victim].keyed.Load() ||
			c.keyed.Load() == open[victim].keyed.Load() && since < open[victim].waiting.Load() {
			victim = i
		}
	}
	return victim, full
}

// Connections that were opened in advance, and never used, are closed: neither one that has carried a byte, nor one that was opened just now.
func TestUnusedConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Limit: 10, BehindProxy: true, MaxRequest: 1 << 10, Now: time.Now, Registry: prometheus.NewRegistry()})
		open := func() (client net.Conn, ended <-chan error) {
			ours, client := net.Pipe()
			t.Cleanup(func() { _, _ = ours.Close(), client.Close() })
			c, failed := s.newConn(ours), make(chan error, 1)
			if refused := s.admit(c); refused != "" {
				t.Fatal(refused)
			}
			go func() {
				var err error
				for err == nil {
					_, err = c.Read(make([]byte, 10))
				}
				failed <- err
			}()
			return client, failed
		}
		_, unused := open()
		half, ofHalf := open()
		if _, err := half.Write([]byte("GET /v1/me")); err != nil {
			t.Fatal(err)
		}
		<-time.After(evictAfter)
		_, late := open()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.CloseUnused(ctx)
		synctest.Wait()
		if len(unused) != 1 {
			t.Error("the unused one is not closed at once")
		}
		if err := <-unused; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the unused one ends with %v", err)
		}
		if len(ofHalf) > 0 || len(late) > 0 || s.count() != 2 {
			t.Errorf("%v are open, want 2", s.count())
		}
		<-time.After(evictAfter)
		synctest.Wait()
		if len(ofHalf) > 0 || len(late) != 1 || s.count() != 1 {
			t.Errorf("a second later, %v are open, want 1", s.count())
		}
	})
}

// A failingListener fails to accept before it is closed.
type failingListener struct {
	failures int
	accepts  chan time.Time
	closed   chan struct{}
}

func (l *failingListener) Accept() (net.Conn, error) {
	l.accepts <- time.Now()
	if l.failures--; l.failures >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *failingListener) Close() error   { close(l.closed); return nil }
func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

func counted(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestAcceptBacksOffAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		s := New(Config{Limit: 1, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)), Registry: registry})
		inner := &failingListener{failures: 10, accepts: make(chan time.Time, 100), closed: make(chan struct{})}
		l := s.Listen(inner, nil)
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		last, want := <-inner.accepts, 5*time.Millisecond
		for range 10 {
			at := <-inner.accepts
			if got := at.Sub(last); got != want {
				t.Errorf("the next try comes after %v, want %v", got, want)
			}
			last, want = at, min(2*want, time.Second)
		}
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
		if n := counted(t, registry, "sara_accept_errors_total"); n != 10 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%v failures are counted, and the log is %s", n, &log)
		}
	})
}
