package connections

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// pipe is a connection and its other end. Time is that of the synctest bubble.
func pipe(t *testing.T) (c *Conn, other net.Conn) {
	t.Helper()
	ours, other := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), other.Close() })
	s, _ := manualSet(1, 0)
	return s.newConn(ours), other
}

// A read ends at its latest deadline: not at an earlier one that was moved, and not later.
func TestConnectionReadsUntilLatestDeadline(t *testing.T) {
	for _, test := range []struct {
		name  string
		moves []time.Duration // from now
		ends  time.Duration
	}{
		{"one", []time.Duration{2 * time.Second}, 2 * time.Second},
		{"later", []time.Duration{2 * time.Second, 5 * time.Second}, 5 * time.Second},
		{"earlier", []time.Duration{5 * time.Second, 2 * time.Second}, 2 * time.Second},
		{"to and fro", []time.Duration{10 * time.Second, 75 * time.Second, 20 * time.Second}, 20 * time.Second},
		{"past", []time.Duration{time.Second, -time.Second}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := pipe(t)
				begun := time.Now()
				for _, d := range test.moves {
					if err := c.SetReadDeadline(begun.Add(d)); err != nil {
						t.Fatal(err)
					}
				}
				_, err := c.Read(make([]byte, 1))
				if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != test.ends {
					t.Errorf("it ended after %v with %v, not after %v", took, err, test.ends)
				}
			})
		})
	}
}

func TestConnectionWithoutDeadlineKeepsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := pipe(t)
		for _, deadline := range []time.Time{time.Now().Add(time.Second), {}} {
			if err := c.SetDeadline(deadline); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			<-time.After(time.Hour)
			_, _ = other.Write([]byte("x"))
		}()
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("it read %d bytes: %v", n, err)
		}
	})
}

// A deadline that another goroutine moves forward ends a read that is blocked already.
func TestEarlierDeadlineInterruptsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pipe(t)
		begun := time.Now()
		if err := c.SetReadDeadline(begun.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		go func() {
			<-time.After(time.Second)
			_ = c.SetReadDeadline(time.Now())
		}()
		_, err := c.Read(make([]byte, 1))
		if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Second {
			t.Errorf("it ended after %v with %v", took, err)
		}
	})
}

// A write whose deadline was moved continues after the bytes already written, and sends nothing twice.
func TestConnectionResumesWriteAfterDeadlineMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := pipe(t)
		for _, seconds := range []time.Duration{3, 30} {
			if err := c.SetWriteDeadline(time.Now().Add(seconds * time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		read := make(chan string)
		go func() {
			var all []byte
			for range 10 {
				one := make([]byte, 1)
				if _, err := io.ReadFull(other, one); err != nil {
					t.Error(err)
				}
				all = append(all, one...)
				<-time.After(time.Second)
			}
			read <- string(all)
		}()
		if n, err := c.Write([]byte("0123456789")); n != 10 || err != nil {
			t.Errorf("it wrote %d bytes: %v", n, err)
		}
		if got := <-read; got != "0123456789" {
			t.Errorf("%q arrived", got)
		}
		begun := time.Now()
		if n, err := c.Write([]byte("unread")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it wrote %d bytes: %v", n, err)
		}
		if took := time.Since(begun); took != 20*time.Second { // the rest of the first deadline
			t.Errorf("it ended after %v", took)
		}
	})
}
