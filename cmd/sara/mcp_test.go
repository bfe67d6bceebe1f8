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
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
)

// overStdio reaches a server's MCP endpoint through sara mcp.
func overStdio(binary, base, key string) mcp.Transport {
	command := exec.Command(binary, "mcp", "--url", base)
	command.Env, command.Stderr = append(os.Environ(), "SARA_API_KEY="+key), os.Stderr
	return &mcp.CommandTransport{Command: command}
}

// testMCPRevoked revokes the key of agents that are connected.
func testMCPRevoked(t *testing.T, binary string) {
	people, _ := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	server, base, _ := serving(t, binary, c.Env)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	created := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "agent")
	key, _ := created["key"].(string)
	direct := clitest.Agent(t, clitest.AgentOverHTTP(base, key), "2026-07-28")
	relayed := clitest.Agent(t, overStdio(binary, base, key), "2025-11-25")
	clitest.CallTool(t, direct, "get_account", nil)
	clitest.CallTool(t, relayed, "get_account", nil)
	c.OK("key", "revoke", c.ID(created))
	revoked := time.Now()
	ask := func() error {
		_, err := direct.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_account"})
		return err
	}
	clitest.Poll(t, "the key is refused", func() bool { return ask() != nil })
	t.Logf("the key is refused %v after it was revoked", time.Since(revoked))
	_, err := relayed.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_account"})
	if err == nil || !strings.Contains(err.Error(), "API_KEY_REVOKED") || !strings.Contains(err.Error(), "SARA_API_KEY") {
		t.Errorf("through sara mcp: %v, want API_KEY_REVOKED and the fix", err)
	}
	server.stopped()
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
		}, command.ExitOK, `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"},
		{"it is interrupted", func(p *process, _ io.Closer) { p.signal(os.Interrupt) }, 130, ""},
	} {
		relay := exec.Command(binary, "mcp", "--url", server.URL)
		relay.Env = append(os.Environ(), "SARA_API_KEY=sara_live_KEY")
		stdin, err := relay.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		p := startCommand(t, relay, t.TempDir())
		if _, err := io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
		test.end(p, stdin)
		answer, err := p.wait()
		status := command.ExitOK
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			status = exit.ExitCode()
		}
		if status != test.status || answer != test.answer {
			t.Errorf("%s: status %d and %q, want %d and %q\n%s", test.name, status, answer, test.status, test.answer, p.stderr)
		}
	}
}
