package main

import (
	"fmt"
	"math"
	"strings"

	"sara/bench/internal/report"
	"sara/bench/trace"
)

// saving holds the upstream calls of the trace, asked once of a sara that knew nothing, against the URL-keyed cache of
// package trace and against no cache at all.
func saving(c trace.Config, once *report.Measurement) (report.Saving, error) {
	keyed := trace.URLKeyed{Anchor: c.Anchor}
	byURL, none := 0, 0
	for _, r := range trace.Generate(c) {
		calls, err := keyed.Ask(r, 0) // all at once: nothing expires
		if err != nil {
			return report.Saving{}, err
		}
		byURL += calls
		if none++; strings.HasPrefix(r.Endpoint, "movers/") {
			none++ // two samples are compared
		}
	}
	return report.Saving{
		What:     fmt.Sprintf("the agency trace of %d accounts and %d properties", c.Accounts, c.Properties),
		Requests: c.Requests, Properties: c.Properties,
		Ways: []report.Way{
			{Name: "sara", Calls: math.Round(once.Request.Upstream * float64(once.Requests))},
			{Name: "URL-keyed cache", Calls: float64(byURL)}, {Name: "no cache", Calls: float64(none)},
		},
	}, nil
}
