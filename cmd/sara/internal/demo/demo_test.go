package demo

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/service"
)

// TestDemoForPeople runs the commands that a demo prints. Its archive is short, so that it starts soon.
func TestDemoForPeople(t *testing.T) {
	if testing.Short() {
		t.Skip("it seeds a demo world")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	var listeners [3]net.Listener
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer service.Close(listeners[i])
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, stdout := io.Pipe()
	var stderr bytes.Buffer // read after the demo has ended
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, &console.Console{Stdout: stdout, Stderr: &stderr, Now: time.Now, Command: console.CommandName("sara")}, Options{
			Listeners: Listeners{Public: listeners[0], Upstream: listeners[1], Admin: listeners[2]}, months: months{main: 1, others: 1}})
		_ = stdout.CloseWithError(err) // cannot fail
		ended <- err
	}()
	printed := bufio.NewScanner(reader)
	tried := 0
	for tried < 3 && printed.Scan() {
		try := printed.Text()
		if !strings.HasPrefix(try, "curl ") {
			continue
		}
		tried++
		out, err := exec.Command("sh", "-c", try+" -sS --fail --noproxy '*'").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"success":true`)) {
			t.Errorf("%s: %v\n%.300s", try, err, out)
		}
	}
	stop()
	if err := <-ended; err != nil || tried != 3 {
		t.Errorf("it ended with %v and %d commands\n%s", err, tried, stderr.String())
	}
}
