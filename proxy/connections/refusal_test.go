package connections

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A stuckConnection takes no byte until it is released.
type stuckConnection struct {
	net.Conn
	released <-chan struct{}
	closed   *sync.WaitGroup
}

func (c stuckConnection) SetWriteDeadline(time.Time) error { return nil }

func (c stuckConnection) Write(b []byte) (int, error) {
	<-c.released
	return len(b), nil
}

func (c stuckConnection) Close() error {
	c.closed.Done()
	return nil
}

// A flood waits in a bounded queue, which empties when the connections take their answers, and then takes others.
func TestHastyRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var queue hastyRefusals
		var closed sync.WaitGroup
		for range 2 {
			released := make(chan struct{})
			add := func() bool {
				added := queue.add(hastyRefusal{stuckConnection{released: released, closed: &closed}, []byte("answer")})
				if added {
					closed.Add(1)
				}
				return added
			}
			add()
			synctest.Wait() // the goroutine has taken the first
			for n := range maxHasty {
				if !add() {
					t.Fatalf("no room for connection %d", n)
				}
			}
			if add() {
				t.Error("the queue takes more than its bound")
			}
			close(released)
			closed.Wait()
			synctest.Wait() // the goroutine has ended
			if queue.running || len(queue.waiting) > 0 {
				t.Errorf("%d connections wait, running: %t", len(queue.waiting), queue.running)
			}
		}
	})
}
