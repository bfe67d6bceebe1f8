package openapi

import (
	"fmt"

	"sara/proxy/media"
)

// The names of the header fields that stand for the meta in a format that has no place for it.
const (
	HeaderSource      = "X-Source"
	HeaderStaleReason = "X-Stale-Reason"
	HeaderTruncatedBy = "X-Truncated-By"
	HeaderHasMore     = "X-Has-More"
	HeaderDateRange   = "X-Date-Range"
	HeaderNote        = "X-Note"
)

// mediaOf describes a body with an example, whose summary is the request that it answers.
func mediaOf(s schema, request string, example any) map[string]any {
	return map[string]any{"schema": s, "examples": map[string]any{"demo": map[string]any{"summary": "GET " + request, "value": example}}}
}

// describeFormats adds the formats that the rows of the answer can be had in, with the example's rows.
func (o *Operation) describeFormats(content map[string]any, request string, example []byte) error {
	table := o.Table()
	if table == nil {
		return nil
	}
	for f, about := range map[media.Format]string{
		media.CSV:    "The rows in the form of RFC 4180, with a header line. Headers say what the meta says.",
		media.NDJSON: "The rows, one JSON object a line. Headers say what the meta says.",
	} {
		body, _, err := table.Convert(f, example)
		if err != nil {
			return fmt.Errorf("example of %s as %s: %w", o.ID, f, err)
		}
		kind, subtype := f.Type()
		content[kind+"/"+subtype] = mediaOf(text(about), request, string(body))
	}
	return nil
}

// metaHeaders are the headers that stand for the meta of an answer in a format that has no place for it.
func (o *Operation) metaHeaders() (names []string) {
	if o.columns() == nil {
		return nil
	}
	members, _ := o.meta["properties"].(properties)
	for _, m := range []struct{ member, header string }{{"source", HeaderSource}, {"stale_reason", HeaderStaleReason},
		{"truncated_by", HeaderTruncatedBy}, {"has_more", HeaderHasMore}, {"date_range", HeaderDateRange}, {"notes", HeaderNote}} {
		if _, ok := members[m.member]; ok {
			names = append(names, m.header)
		}
	}
	return names
}

func metaHeaderDescriptions() map[string]map[string]any {
	header := func(member, example string) map[string]any {
		return map[string]any{"description": "Of CSV and NDJSON only: meta." + member + ". Absent where there is none.", "required": false,
			"schema": schema{"type": "string"}, "example": example}
	}
	return map[string]map[string]any{
		HeaderSource:      header("source", "live"),
		HeaderStaleReason: header("stale_reason", "Search Console takes longer than usual to answer"),
		HeaderTruncatedBy: header("truncated_by", "clicks"),
		HeaderHasMore:     header("has_more", "true"),
		HeaderDateRange:   header("date_range, as its first and its last day", "2026-10-23/2026-11-19"),
		HeaderNote: header("notes, a header for each, in which characters beyond ASCII and the percent sign are percent-encoded",
			"Search Console has not published 2026-11-19 yet."),
	}
}
