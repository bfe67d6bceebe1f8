package command

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sara/cmd/sara/internal/clitest"
	"sara/proxy/upstream/losttest"
)

func TestMCPNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const secret = "sara_live_SECRET"
	c := clitest.New(t, sara)
	there := []string{"mcp", "--url", "http://127.0.0.1:1"}
	c.Fails(ExitUsage, []string{"mcp"}, "--url", "sara mcp --help")
	c.Fails(ExitError, there, "there is no API key: set SARA_API_KEY", "--key-file")
	c.Fails(ExitError, append(there, "--key-file", c.Path("none")), "--key-file: ", "no such file")
	c.Fails(ExitError, append(there, "--key-file", c.Write("empty", "\n")), "--key-file: ", "is empty")
	c.Fails(ExitError, append(there, "--key-file", c.Write("two", secret+"\n"+secret)), "--key-file: ", "it is not an API key")
	c.Fails(ExitUsage, append(there, "--api-key", secret), "SARA_API_KEY (--api-key): every user of this machine can read the command line")
	c.Env = append(c.Env, "SARA_API_KEY="+secret)
	for _, address := range []string{"api.example.com", "ftp://api.example.com", "https://"} {
		c.Fails(ExitUsage, []string{"mcp", "--url", address}, "--url ", " is not an absolute http or https URL, such as https://api.example.com")
	}
	for _, address := range []string{"https://u:" + secret + "@api.example.com", "https://api.example.com/mcp?key=" + secret} {
		c.Fails(ExitUsage, []string{"mcp", "--url", address}, " has more than a scheme, a host and a path; write it like https://api.example.com")
	}
	c.OK(there...) // its input, that of the test, is empty
	if c.OK("mcp", "--url", "http://api.example.com"); !strings.Contains(c.LastErrs, "is not encrypted") {
		t.Errorf("a key over plain HTTP: %q", c.LastErrs)
	}
	if c.OK("account", "list"); strings.Contains(c.Said.String(), secret) {
		t.Errorf("the key is printed:\n%s", c.Said)
	}
}

func TestMCPEndpoint(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://127.0.0.1:8080":         "http://127.0.0.1:8080/mcp",
		"https://api.example.com/":      "https://api.example.com/mcp",
		"https://api.example.com/mcp":   "https://api.example.com/mcp",
		"https://example.com/sara/mcp/": "https://example.com/sara/mcp",
		"https://example.com/sara":      "https://example.com/sara/mcp",
	} {
		if got, err := mcpEndpoint(address); err != nil || got.String() != want {
			t.Errorf("%s: %v (%v), want %s", address, got, err, want)
		}
	}
}

// A connection that is lost, as when a laptop changes its network, is replaced.
func TestLostConnectionToAServerIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, stop := losttest.Serve(http.NotFoundHandler())
		defer stop()
		transport := serverTransport()
		network.Join(t, transport)
		defer transport.CloseIdleConnections()
		client := http.Client{Transport: transport, Timeout: 2 * time.Minute}
		ask := func() error {
			answer, err := client.Get("https://" + losttest.Host)
			if err == nil {
				err = answer.Body.Close()
			}
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		network.Lose()
		began, failed := time.Now(), ask()
		if err := ask(); failed == nil || err != nil || time.Since(began) > 20*time.Second || network.Dials() != 2 {
			t.Errorf("after %v, over %d connections: %v, then %v", time.Since(began), network.Dials(), failed, err)
		}
	})
}
