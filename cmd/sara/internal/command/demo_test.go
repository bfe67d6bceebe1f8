package command

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/service"
)

// TestDemoForPeople does what a demo prints: it opens the page, which has the printed key, and runs the commands. Its archive is short, so
// that it starts soon.
func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it seeds a demo world")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	d := demoWithin(t, time.Now, demo.Options{Months: demo.Months{Main: 1, Gaps: 1, Others: 1}})
	printed := bufio.NewScanner(d.stdout)
	tried, page, agent := 0, "", ""
	for agent == "" && printed.Scan() {
		try := printed.Text()
		if strings.HasPrefix(try, "claude mcp add ") {
			agent = try
		}
		if address, ok := strings.CutPrefix(try, "Open "); ok {
			address, _, _ = strings.Cut(address, " ")
			page = clitest.WantStatus(t, 200, address+"/operations/getSummary", "").Body
		}
		if key, ok := strings.CutPrefix(try, "pro "); ok && !strings.Contains(page, `value="`+strings.Fields(key)[1]+`"`) {
			t.Errorf("the page does not have the key of %q", try)
		}
		if !strings.HasPrefix(try, "curl ") {
			continue
		}
		tried++
		out, err := exec.Command("sh", "-c", try+" -sS --fail --noproxy '*'").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"success":true`)) {
			t.Errorf("%s: %v\n%.300s", try, err, out)
		}
	}
	d.stop()
	words, err := exec.Command("sh", "-c", `claude() { printf '%s\n' "$@"; }; `+agent).CombinedOutput()
	form := regexp.MustCompile(`^mcp\nadd\n--transport\nhttp\nsara\nhttp://127\.0\.0\.1:\d+/mcp\n--header\nAuthorization: Bearer sara_live_\w+\n$`)
	if err != nil || !form.Match(words) {
		t.Errorf("%s: %v\n%s", agent, err, words)
	}
	if tried != 3 || page == "" {
		t.Errorf("it printed %d commands\n%s", tried, d.stderr.String())
	}
}

// A demoInTest is a demo in the process of its test.
type demoInTest struct {
	stdout io.Reader
	stderr *bytes.Buffer // to be read after stop
	stop   func()        // stops it once, and checks how it ends
}

// demoWithin starts a demo on any free ports, by a clock. It stops with the test at the latest.
func demoWithin(t *testing.T, now func() time.Time, o demo.Options) demoInTest {
	t.Helper()
	const anyPort = "127.0.0.1:0"
	command := demoCommand{Listen: anyPort, UpstreamListen: anyPort, AdminListen: anyPort}
	var err error
	if o.Listeners, err = command.listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reader, stdout := io.Pipe()
	d := demoInTest{stdout: reader, stderr: new(bytes.Buffer)}
	ended := make(chan error, 1)
	go func() {
		err := demo.Run(ctx, &console.Console{Stdout: stdout, Stderr: d.stderr, Now: now, Command: console.ProgramName}, o)
		_ = stdout.CloseWithError(err) // cannot fail
		ended <- err
	}()
	d.stop = sync.OnceFunc(func() {
		cancel()
		_ = reader.Close() // cannot fail
		if err := <-ended; err != nil {
			t.Errorf("the demo ended with %v\n%s", err, d.stderr.String())
		}
		service.Close(o.Public, o.Upstream, o.Admin)
	})
	t.Cleanup(d.stop)
	return d
}
