package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMCPNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const secret = "sara_live_SECRET"
	c := newCLI(t)
	there := []string{"mcp", "--url", "http://127.0.0.1:1"}
	c.fails(exitUsage, []string{"mcp"}, "--url", "sara mcp --help")
	c.fails(exitError, there, "there is no API key: set SARA_API_KEY", "--key-file")
	c.fails(exitError, append(there, "--key-file", c.path("none")), "--key-file: ", "no such file")
	c.fails(exitError, append(there, "--key-file", c.write("empty", "\n")), "--key-file: ", "is empty")
	c.fails(exitError, append(there, "--key-file", c.write("two", secret+"\n"+secret)), "--key-file: ", "it is not an API key")
	c.fails(exitError, append(there, "--api-key", secret), "SARA_API_KEY (--api-key): every user of this machine can read the command line")
	c.env = append(c.env, "SARA_API_KEY="+secret)
	for _, address := range []string{"api.example.com", "ftp://api.example.com", "https://", "https://u:" + secret + "@api.example.com", "https://api.example.com/mcp?key=" + secret} {
		c.fails(exitError, []string{"mcp", "--url", address}, "is not the URL of a server, such as https://api.example.com")
	}
	c.ok(there...) // its input, that of the test, is empty
	if c.ok("mcp", "--url", "http://api.example.com"); !strings.Contains(c.lastErrs, "is not encrypted") {
		t.Errorf("a key over plain HTTP: %q", c.lastErrs)
	}
	if c.ok("account", "list"); strings.Contains(c.said.String(), secret) {
		t.Errorf("the key is printed:\n%s", c.said)
	}
}

func TestMCPEndpoint(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"http://127.0.0.1:8080": "http://127.0.0.1:8080/mcp", "https://api.example.com/": "https://api.example.com/mcp",
		"https://api.example.com/mcp": "https://api.example.com/mcp", "https://example.com/sara/mcp/": "https://example.com/sara/mcp", "https://example.com/sara": "https://example.com/sara/mcp"} {
		if got, err := mcpEndpoint(address); err != nil || got.String() != want {
			t.Errorf("%s: %v (%v), want %s", address, got, err, want)
		}
	}
}

// testMCPEnds checks how sara mcp ends: by the end of its input after what is in flight, and by an interrupt at once.
func testMCPEnds(t *testing.T, binary string) {
	begun, finish := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then, the server notices the end of the connection
		begun <- struct{}{}
		select {
		case <-finish:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	for _, test := range []struct {
		name   string
		end    func(p *process, stdin io.Closer)
		status int
		answer string
	}{
		{"the input ends", func(_ *process, stdin io.Closer) {
			_ = stdin.Close()
			finish <- struct{}{}
		}, exitOK, `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"},
		{"it is interrupted", func(p *process, _ io.Closer) { p.signal(os.Interrupt) }, 130, ""},
	} {
		command := exec.Command(binary, "mcp", "--url", server.URL)
		command.Env = append(os.Environ(), "SARA_API_KEY=sara_live_KEY")
		stdin, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		p := startCommand(t, command, t.TempDir())
		if _, err := io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
		test.end(p, stdin)
		answer, err := p.wait()
		status := exitOK
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			status = exit.ExitCode()
		}
		if status != test.status || answer != test.answer {
			t.Errorf("%s: status %d and %q, want %d and %q\n%s", test.name, status, answer, test.status, test.answer, p.stderr)
		}
	}
}
