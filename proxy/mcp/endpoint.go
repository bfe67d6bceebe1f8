package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// An API answers REST requests. Its methods are safe for concurrent use.
type API interface {
	// Get answers a GET of a path with its query, for the client whose MCP request ctx belongs to.
	Get(ctx context.Context, target string) Answer

	// Totals returns the totals of a site in JSON, as /summary has them for the days that the query chooses, if they are at hand: it makes
	// no live call and charges nothing. The client has just had a table of the site. nil: they are not at hand.
	Totals(ctx context.Context, property string, days url.Values) []byte

	// RequestID returns the id of the MCP request that ctx belongs to.
	RequestID(ctx context.Context) string

	// Panicked records a panic of the MCP request that ctx belongs to.
	Panicked(ctx context.Context, value any)
}

// An Answer is the answer to a REST request.
type Answer struct {
	Status     int
	RequestID  string
	RetryAfter int // seconds; 0: there is no use in trying again
	Body       []byte
}

// MaxBody bounds the body of a message. The largest calls have twenty filters.
const MaxBody = 32 << 10

// MaxBatch bounds the messages in one body. The revision 2025-03-26 has batches, and no other one does.
const MaxBatch = 20

// Messages returns how many messages a body has: several if it is a batch.
func Messages(body []byte) int {
	if batch := gjson.ParseBytes(body); batch.IsArray() {
		return max(1, int(batch.Get("#").Int()))
	}
	return 1
}

// listsFreshFor is how long clients may keep the lists of tools and prompts, in milliseconds. They change only with the binary.
const listsFreshFor = 5 * 60 * 1000

const instructions = `Search performance of websites, from Google Search Console. Begin with list_properties, or with get_overview if you know the site.
The argument property is an id, a slug or a domain of list_properties. Dates are Pacific days, as YYYY-MM-DD; without dates the range is last_28d. A tool costs one
request of the key's budgets, and at most one live call to Search Console, unless its description says more.
Search Console publishes a day two or three days late: the newest days are missing, not zero. Read the notes of a result before you explain a change: they name
unpublished days, known errors at Google, and figures that do not add up. Rows are the top of a longer list and withhold rare queries: never add them up to a total.
source tells live figures from archived ones (stored, hybrid); with a stale_reason figures are older than usual: say so.`

// New returns the endpoint. The version is that of the program.
func New(api API, version string) http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "sara", Title: "sara: search performance", Version: version}, &sdk.ServerOptions{
		Instructions: instructions,
		// Lists never change, and there is no log: what is not advertised, clients do not wait for.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Prompts: &sdk.PromptCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
			c.TTLMs, c.CacheScope = listsFreshFor, "private"
		},
	})
	for _, t := range tools() {
		server.AddTool(t.declare(), t.handler(api))
	}
	addPrompts(server)
	return refusing{sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: MaxBody,
		DisableLocalhostProtection: true, // the edge checks Host and Origin, which it knows behind a proxy too
	})}
}

// declare returns what tools/list shows of the tool.
func (t *tool) declare() *sdk.Tool {
	no := false
	return &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: t.inputSchema(), OutputSchema: json.RawMessage(outputSchema),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}}
}

// handler returns the tool's handler. It never fails: errors are results, which models see. The SDK calls it on a goroutine of its own, where
// a panic would end the process.
func (t *tool) handler(api API) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (result *sdk.CallToolResult, _ error) {
		defer func() {
			if p := recover(); p != nil {
				api.Panicked(ctx, p)
				result = broken().result()
			}
			if result.Meta[metaRequestID] == nil { // the call made no REST request
				result.Meta = sdk.Meta{metaRequestID: api.RequestID(ctx)}
			}
		}()
		arguments, err := t.parse(r.Params.Arguments)
		if err != nil {
			return err.result(), nil
		}
		return t.run(ctx, api, arguments), nil
	}
}
