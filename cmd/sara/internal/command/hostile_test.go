package command

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
)

// What a server answers cannot drive the terminal of the operator.
func TestAnswersHaveNoCommandsToATerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		args   []string
		status int
		want   string
	}{
		"health":                 {`{"state":"ready","reason":"\u001b[2Jgone"}`, []string{"health", "--url", "URL"}, ExitOK, "ready:  [2Jgone\n"},
		"health of a bad server": {`{"state":"down","reason":"\u001b[2Jgone"}`, []string{"health", "--url", "URL"}, ExitError, "is down:  [2Jgone\n"},
		"mcp": {`{"error":{"code":"\u001b]0;title","message":"\u001b[2J\u0007gone"}}`, []string{"mcp", "--url", "URL"}, ExitOK,
			"HTTP 400  ]0;title:  [2J gone\n"},
		"report": {`{"success":false,"error":{"code":"\u001b]0;title","message":"\u001b[2J\u0007gone"}}`,
			[]string{"report", "--url", "URL", "--all"}, ExitError, " [2J gone\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(test.answer, `"error"`) {
					w.WriteHeader(http.StatusBadRequest)
				}
				_, _ = io.WriteString(w, test.answer)
			}))
			t.Cleanup(server.Close)
			for i, arg := range test.args {
				test.args[i] = strings.Replace(arg, "URL", server.URL, 1)
			}
			c := clitest.New(t, sara).With("SARA_API_KEY=sara_live_SECRET")
			var stdout, stderr strings.Builder
			status := sara(t.Context(), test.args, c.Env, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), &stdout, &stderr)
			said := stdout.String() + stderr.String()
			if status != test.status || !strings.Contains(said, test.want) || strings.ContainsAny(said, "\x1b\x07") {
				t.Errorf("status %d: %q", status, said)
			}
		})
	}
}
