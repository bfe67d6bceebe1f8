package proxy

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sara/proxy/connections"
)

// A tool that has no answer when the time of its message is over still has a result: the SDK sends nothing once its context has ended.
func TestMCP200WhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hanging := make(chan struct{})
	w.answerWith(func(http.ResponseWriter, *http.Request) { <-hanging })
	defer close(hanging)
	endpoint := w.server.agents
	for i, dimension := range []string{"query", "page", "country", "device"} { // before the circuit breaker opens
		client, server := net.Pipe()
		var request fasthttp.RequestCtx
		request.Init2(&connection{Conn: &connections.Conn{Conn: server}}, discardLogger{}, true)
		header := &request.Request.Header
		header.SetMethod(http.MethodPost)
		header.SetRequestURI(pathMCP)
		for name, value := range map[string]string{"Host": "localhost", "Authorization": "Bearer " + w.keys["pro"],
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			header.Set(name, value)
		}
		request.Request.SetBodyString(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"query_performance",`+
			`"arguments":{"property":%q,"dimension":%q}}}`, i, w.properties["main"].ID, dimension))
		c := w.server.newExchange(endpoint.route, &request)
		c.deadline.at = time.Now().Add(mcpReserve + 50*time.Millisecond)
		w.must(endpoint.respond(c))
		if body := string(request.Response.Body()); !strings.Contains(body, `"isError":true`) {
			t.Errorf("%s: the answer is %q", dimension, body)
		}
		c.deadline.end()
		w.must(client.Close())
	}
}
