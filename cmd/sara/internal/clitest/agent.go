package clitest

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// withBearer adds a key to requests.
type withBearer string

// RoundTrip implements http.RoundTripper.
func (key withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

// AgentOverHTTP reaches a server's MCP endpoint as programs do that speak HTTP.
func AgentOverHTTP(base, key string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: withBearer(key)}}
}

// Agent connects the official Go client, with a revision of the protocol.
func Agent(t *testing.T, transport mcp.Transport, revision string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("the revision %s is negotiated, want %s", got, revision)
	}
	return session
}

// CallTool calls a tool and returns the text and the structured content of its result, which must be no error.
func CallTool(t *testing.T, session *mcp.ClientSession, tool string, arguments any) (text string, structured map[string]any) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if len(result.Content) == 1 {
		if content, ok := result.Content[0].(*mcp.TextContent); ok {
			text = content.Text
		}
	}
	structured, _ = result.StructuredContent.(map[string]any)
	if result.IsError || text == "" || structured == nil {
		t.Fatalf("%s: %q, %v", tool, text, result.StructuredContent)
	}
	return text, structured
}
