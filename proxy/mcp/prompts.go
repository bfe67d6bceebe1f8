package mcp

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A prompt is a task that a person can choose in a client. Its text has the site in place of %s.
type prompt struct{ name, title, about, text string }

func prompts() []prompt {
	return []prompt{
		{"weekly_report", "Weekly report", "What changed in search in the last week, for a reader who has one minute.",
			"Write a short report on the search performance of %s in the last seven days. Call get_overview with date_range last_7d, " +
				"and get_context for what the site's owner noted. Give clicks, impressions and position with their change, " +
				"three queries and three pages that explain it, and one thing to do. " +
				"Name the days that are not published, and every note that limits the figures. Do not add rows up to totals."},
		{"explain_drop", "Explain a drop", "Why clicks fell, with what the figures prove and what they do not.",
			"Explain why clicks of %s fell. Call get_overview for last_28d. First rule out what is no drop: days that are not published, " +
				"known errors at Google in the notes, fewer compared days. Then look at find_movers for queries and pages, " +
				"and at query_performance by country and device. Call get_context for launches and get_indexing for pages that left the index. " +
				"A query that is missing in a truncated table has unknown clicks, not zero. End with the most likely cause, " +
				"the figures for it, and what would prove it wrong."},
		{"indexing_audit", "Indexing audit", "Which pages are not indexed, and what to do first.",
			"Audit the index coverage of %s. Call get_indexing with include_trend, then list_indexed_urls for the largest reasons. " +
				"Zeros before the status ready are not results. Group the URLs by cause, say which groups are intended (redirects, duplicates), " +
				"and list the five URLs to fix first."},
	}
}

func addPrompts(server *sdk.Server) {
	for _, p := range prompts() {
		declared := &sdk.Prompt{Name: p.name, Title: p.title, Description: p.about,
			Arguments: []*sdk.PromptArgument{{Name: argProperty, Description: "Id, slug or domain of the site", Required: true}}}
		server.AddPrompt(declared, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			site := r.Params.Arguments[argProperty]
			if site == "" { // the SDK does not check it
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: argProperty + " is required"}
			}
			return &sdk.GetPromptResult{Description: p.about, Messages: []*sdk.PromptMessage{{Role: "user",
				Content: &sdk.TextContent{Text: fmt.Sprintf(p.text, site)}}}}, nil
		})
	}
}
