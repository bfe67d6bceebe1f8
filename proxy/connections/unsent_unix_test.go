//go:build linux || darwin

package connections

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// A client that does not read cannot make the kernel keep megabytes of its answers, as it does by default on this machine's own network.
func TestKernelTakesLittleOfWhatIsNotRead(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	const window = 4 << 10
	if err := client.(*net.TCPConn).SetReadBuffer(window); err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := manualSet(1, 0)
	c := s.newConn(accepted)
	defer func() { _ = c.Close() }()
	if err := c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	const most = maxUnsent + 256<<10 // the window of a new connection is larger
	if n, err := c.Write(make([]byte, 16<<20)); n > most || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the kernel took %d bytes, of at most %d (%v)", n, most, err)
	}
}
