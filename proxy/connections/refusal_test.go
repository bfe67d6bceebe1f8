package connections

import (
	"io"
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
			_, _ = add(), add() // to one goroutine, although it does not run yet
			synctest.Wait()     // it has taken them
			add()
			synctest.Wait()
			for n := 1; n < maxHasty; n++ {
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

// A client that does not take its answer holds up the refusal of others for moments only.
func TestHastyRefusalGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, client := net.Pipe()
		defer func() { _ = client.Close() }()
		begun := time.Now()
		hastyRefusal{conn, []byte("answer")}.send()
		if took := time.Since(begun); took != minAcceptDelay {
			t.Errorf("it takes %v", took)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection is not closed: %v", err)
		}
	})
}

// A halfClosed connection records that it is closed for writing.
type halfClosed struct {
	net.Conn
	closed bool
}

func (c *halfClosed) CloseWrite() error {
	c.closed = true
	return nil
}

// A client that is refused with patience is answered a second after it connected at the latest, and has another second to read.
func TestPatientRefusalEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sends, reads bool
		took         time.Duration
	}{
		"a client that sends nothing": {false, true, time.Second},
		"a client that reads nothing": {true, false, time.Second},
		"a client that does neither":  {false, false, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pipe, client := net.Pipe()
				defer func() { _ = client.Close() }()
				conn := &halfClosed{Conn: pipe}
				begun := time.Now()
				ended := make(chan time.Duration)
				go func() {
					refusePatiently(conn, []byte("answer"))
					ended <- time.Since(begun)
				}()
				if test.sends {
					_, _ = client.Write([]byte("request"))
				}
				if answer := make([]byte, 10); test.reads {
					if n, err := client.Read(answer); string(answer[:n]) != "answer" {
						t.Errorf("it reads %q, %v", answer[:n], err)
					}
				}
				if took := <-ended; took != test.took {
					t.Errorf("it ends after %v, want %v", took, test.took)
				}
				if conn.closed != test.reads {
					t.Errorf("the answer is marked as complete: %t", conn.closed)
				}
				if _, err := client.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the connection is not closed: %v", err)
				}
			})
		})
	}
}

// A countingConn counts the bytes that are read.
type countingConn struct {
	net.Conn
	read int
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read += n
	return n, err
}

// A client that has sent more than is read before the answer gets all of it: no reset overtakes it.
func TestPatientRefusalArrives(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	const sent = 16 << 10
	if _, err := client.Write(make([]byte, sent)); err != nil {
		t.Fatal(err)
	}
	read := make(chan int)
	go func() {
		counted := &countingConn{Conn: conn}
		refusePatiently(counted, []byte("answer"))
		read <- counted.read
	}()
	answer := make([]byte, 10)
	if n, err := client.Read(answer); string(answer[:n]) != "answer" {
		t.Errorf("it reads %q: %v", answer[:n], err)
	}
	_ = client.Close()
	if n := <-read; n != sent {
		t.Errorf("the connection was closed when %d of %d bytes had been read", n, sent)
	}
}

// Connections that are refused hold up nothing. Beyond a bound of those that are refused with patience, others are refused in haste; when they
// have ended, there is patience again.
func TestPatienceIsBoundedAndReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := manualSet(1, 0)
		l := s.Listen(nil, func() []byte { return []byte("answer") })
		for range 2 {
			begun := time.Now()
			var last net.Conn
			for range maxRefusals + 2 {
				conn, client := net.Pipe()
				defer func() { _ = client.Close() }()
				l.refuse(conn)
				last = client
			}
			if took := time.Since(begun); took > 0 || len(l.patient) != maxRefusals {
				t.Errorf("%d are refused with patience, after %v", len(l.patient), took)
			}
			if _, err := last.Read(make([]byte, 1)); err != nil {
				t.Errorf("the last is not answered in haste: %v", err)
			}
			<-time.After(time.Minute)
			if len(l.patient) > 0 {
				t.Errorf("%d are still refused a minute later", len(l.patient))
			}
		}
	})
}
