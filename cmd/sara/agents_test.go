package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sara/cmd/sara/saratest"
)

// withBearer adds a key to requests.
type withBearer string

// RoundTrip implements http.RoundTripper.
func (key withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

// overHTTP reaches a server's MCP endpoint as programs do that speak HTTP.
func overHTTP(base, key string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: withBearer(key)}}
}

// overStdio reaches it through sara mcp.
func overStdio(binary, base, key string) mcp.Transport {
	command := exec.Command(binary, "mcp", "--url", base)
	command.Env, command.Stderr = append(os.Environ(), "SARA_API_KEY="+key), os.Stderr
	return &mcp.CommandTransport{Command: command}
}

// agent connects the official Go client, with a revision of the protocol.
func agent(t *testing.T, transport mcp.Transport, revision string) *mcp.ClientSession {
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

// callTool calls a tool and returns the text and the structured content of its result, which must be no error.
func callTool(t *testing.T, session *mcp.ClientSession, tool string, arguments any) (text string, structured map[string]any) {
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

// testAgents connects agents to a demo whose clock stands still.
func testAgents(t *testing.T, world saratest.World) {
	t.Run("the transcripts of the guide", func(t *testing.T) {
		testTranscripts(t, agent(t, overHTTP(world.BaseURL, world.Keys["agency"]), "2026-07-28"))
	})
	t.Run("every tool over HTTP", func(t *testing.T) {
		testEveryTool(t, agent(t, overHTTP(world.BaseURL, world.Keys["agency"]), "2026-07-28"), world.BaseURL, world.Keys["agency"])
	})
	t.Run("every tool through sara mcp", func(t *testing.T) {
		key := world.Keys["workspace_scoped"]
		testEveryTool(t, agent(t, overStdio(program(t), world.BaseURL, key), "2025-11-25"), world.BaseURL, key)
	})
}

// testEveryTool calls every tool, and compares the results of those that stand for one request with the REST API.
func testEveryTool(t *testing.T, session *mcp.ClientSession, base, key string) {
	text, err := os.ReadFile("../../proxy/check/mcp/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls []struct {
		Tool      string
		Arguments map[string]any
		REST      string
	}
	if err := json.Unmarshal(text, &calls); err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	uncalled := make(map[string]bool)
	for _, tool := range list.Tools {
		uncalled[tool.Name] = true
	}
	for _, call := range calls {
		if !uncalled[call.Tool] {
			continue
		}
		delete(uncalled, call.Tool)
		_, got := callTool(t, session, call.Tool, call.Arguments)
		if call.REST == "" {
			continue
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(wantStatus(t, http.StatusOK, base+call.REST, key).body), &want); err != nil {
			t.Fatal(err)
		}
		delete(want, "success")
		for _, answer := range []map[string]any{got, want} {
			for _, varies := range []struct{ object, member string }{{"meta", "request_id"}, {"meta", "cache"}, {"data", "usage"}} {
				object, _ := answer[varies.object].(map[string]any)
				delete(object, varies.member)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", call.Tool, got, want)
		}
	}
	if len(uncalled) > 0 || len(list.Tools) < 10 {
		t.Errorf("there are %d tools, of which calls.json does not call %v", len(list.Tools), uncalled)
	}
}

// testTranscripts makes the calls of the guide to agents. What looks like a cause and is none must be visible to a reader of the texts: days
// that are not published, a known error at Google, a table that is cut.
func testTranscripts(t *testing.T, session *mcp.ClientSession) {
	const file, asked, most = "../../proxy/docs/guides/agents.md", "### Why did clicks fall last month?", 4
	guide, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, section := range strings.Split(string(guide), "\n### ")[1:] {
		seen := ""
		blocks := transcriptBlocks(section)
		for _, b := range blocks {
			text, _ := callTool(t, session, b.tool, json.RawMessage(b.arguments))
			if !b.shows(text) {
				t.Errorf("%s: %s %s returns\n%s", file, b.tool, b.arguments, text)
			}
			seen += text
		}
		calls += len(blocks)
		if !strings.HasPrefix("### "+section, asked) {
			continue
		}
		for _, trap := range []string{"Search Console has not published", "gsc-impressions-logging-2025", "Truncated: rows with fewer clicks exist"} {
			if !strings.Contains(seen, trap) {
				t.Errorf("%s: the texts do not contain %q", asked, trap)
			}
		}
		if len(blocks) == 0 || len(blocks) > most {
			t.Errorf("%s: %d calls, want at most %d", asked, len(blocks), most)
		}
	}
	if calls < 7 {
		t.Errorf("the guide has %d calls", calls)
	}
}

// A transcriptBlock is a call in the guide, with the text that it shows.
type transcriptBlock struct{ tool, arguments, text string }

// transcriptBlocks returns the calls of a section: an indented line with > begins one, and prose ends it.
func transcriptBlocks(section string) (blocks []transcriptBlock) {
	open := false
	for line := range strings.Lines(section) {
		line, indented := strings.CutPrefix(line, "    ")
		call, begins := strings.CutPrefix(line, "> ")
		switch {
		case indented && begins:
			tool, arguments, _ := strings.Cut(strings.TrimSpace(call), " ")
			blocks, open = append(blocks, transcriptBlock{tool: tool, arguments: arguments}), true
		case strings.TrimSpace(line) != "" && !indented:
			open = false
		case open:
			blocks[len(blocks)-1].text += line
		}
	}
	return blocks
}

// shows reports whether the block shows a text. In a block, … stands for anything.
func (b *transcriptBlock) shows(text string) bool {
	parts := strings.Split(strings.TrimSpace(b.text), "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, `.*`) + `$`).MatchString(strings.TrimSpace(text))
}

// testMCPRevoked revokes the key of agents that are connected.
func testMCPRevoked(t *testing.T, binary string) {
	people, _ := simulate(t)
	c := newCLI(t).against(people)
	server, base, _ := serving(t, binary, c.env)
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	created := c.object(keyMembers+" key", "key", "create", "ann@example.com", "--name", "agent")
	key, _ := created["key"].(string)
	direct := agent(t, overHTTP(base, key), "2026-07-28")
	relayed := agent(t, overStdio(binary, base, key), "2025-11-25")
	callTool(t, direct, "get_account", nil)
	callTool(t, relayed, "get_account", nil)
	c.ok("key", "revoke", c.id(created))
	revoked := time.Now()
	ask := func() error {
		_, err := direct.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_account"})
		return err
	}
	poll(t, "the key is refused", func() bool { return ask() != nil })
	t.Logf("the key is refused %v after it was revoked", time.Since(revoked))
	_, err := relayed.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_account"})
	if err == nil || !strings.Contains(err.Error(), "API_KEY_REVOKED") || !strings.Contains(err.Error(), "SARA_API_KEY") {
		t.Errorf("through sara mcp: %v, want API_KEY_REVOKED and the fix", err)
	}
	server.stopped()
}
