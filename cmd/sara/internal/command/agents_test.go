package command

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/saratest"
)

// overStdio reaches a server's MCP endpoint through sara mcp.
func overStdio(t *testing.T, base, key string) mcp.Transport {
	t.Helper()
	in, toSara := io.Pipe()
	fromSara, out := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		status := sara(context.Background(), []string{"mcp", "--url", base}, []string{"SARA_API_KEY=" + key}, in, out, &errs)
		_ = out.Close() // cannot fail
		ended <- status
	}()
	t.Cleanup(func() {
		_ = toSara.Close() // cannot fail
		if status := <-ended; status != ExitOK {
			t.Errorf("sara mcp: status %d\n%s", status, &errs)
		}
	})
	return &mcp.IOTransport{Reader: fromSara, Writer: toSara}
}

// testAgents connects agents to a demo whose clock stands still.
func testAgents(t *testing.T, world saratest.World) {
	t.Run("the transcripts of the guide", func(t *testing.T) {
		testTranscripts(t, clitest.Agent(t, clitest.AgentOverHTTP(world.BaseURL, world.Keys["agency"]), "2026-07-28"))
	})
	t.Run("every tool over HTTP", func(t *testing.T) {
		testEveryTool(t, clitest.Agent(t, clitest.AgentOverHTTP(world.BaseURL, world.Keys["agency"]), "2026-07-28"), world.BaseURL, world.Keys["agency"])
	})
	t.Run("every tool through sara mcp", func(t *testing.T) {
		key := world.Keys["workspace_scoped"]
		testEveryTool(t, clitest.Agent(t, overStdio(t, world.BaseURL, key), "2025-11-25"), world.BaseURL, key)
	})
}

// testEveryTool calls every tool, and compares the results of those that stand for one request with the REST API.
func testEveryTool(t *testing.T, session *mcp.ClientSession, base, key string) {
	text, err := os.ReadFile("../../../../proxy/check/mcp/calls.json")
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
		_, got := clitest.CallTool(t, session, call.Tool, call.Arguments)
		if call.REST == "" {
			continue
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(clitest.WantStatus(t, http.StatusOK, base+call.REST, key).Body), &want); err != nil {
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
	const file, asked, most = "../../../../proxy/docs/guides/agents.md", "### Why did clicks fall last month?", 4
	guide, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, section := range strings.Split(string(guide), "\n### ")[1:] {
		seen := ""
		blocks := transcriptBlocks(section)
		for _, b := range blocks {
			text, _ := clitest.CallTool(t, session, b.tool, json.RawMessage(b.arguments))
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
