// Package trace makes the agency trace: the requests that the dashboards of search-marketing agencies make in one working
// day. It also has two pure models of what a cache in front of Search Console calls for them: URLKeyed, the cache that one
// can buy, and Widening, the rules that sara documents. Everything is a function of a Config: no clock, no input, no
// state, so that two runs of one seed ask the same.
//
// # The model
//
// Agencies (accounts) have properties and people. Each property belongs to one account; among its properties a few are
// looked at most of the time (Zipf, exponent 1.1). Each person uses one of four clients, by whose habits requests that
// mean the same come in different spellings:
//
//	web dashboard  45 %  leaves defaults out, tables of 10 rows
//	report tool    25 %  spells defaults out, says is for equals, tables of 25 rows
//	spreadsheet    20 %  works out the dates by itself, parameters in alphabetical order, limit 1000
//	script         10 %  filters and limits before the dates, tables of 100 rows
//
// A person sits down at any time of nine hours, picks a property and a range (see drawPeriod), in every second case on the
// agency's home, which shows the figures of up to 20 properties with the period before and a sparkline. Then the person
// opens the property's dashboard: summary compared with the period before, timeseries, queries and pages; those of a third
// of the people show countries and devices too. Then, four more times on average and after 40 seconds on average, the
// person
//
//	changes the range, and in every third case comes back       33 %
//	drills down: other orders and larger limits, three tables   33 %
//	reloads the dashboard                                       10 %
//	goes back to the agency's home                              10 %
//	looks at a segment: the dashboard with filters               7 %
//	looks at what moved                                          7 %
//
// A view over twelve months does not compare, since the period before it is beyond the 16 months of the upstream.
// All weights are ours: they are written down in generate.go and session.go, not measured anywhere.
package trace

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config is a trace's size. All fields but Seed must be set.
type Config struct {
	Seed       uint64
	Requests   int
	Accounts   int
	People     int // of each account
	Properties int // of all accounts together, at least one each
	Anchor     Day // the last day with final data, which every range ends on or before
}

// Account returns the number of the account that a property belongs to.
func (c Config) Account(property int) int { return property % c.Accounts }

// HasSegments tells whether a property has brand terms and page groups: the six of each account that are looked at most.
func (c Config) HasSegments(property int) bool { return property/c.Accounts < 6 }

// Domain is the bare domain of a property, by which requests name it.
func Domain(property int) string { return BrandTerm(property) + ".example" }

// BrandTerm is the one brand term of a property that has segments.
func BrandTerm(property int) string { return fmt.Sprintf("client%03d", property) }

// PageGroups are the names of the page groups of a property that has segments.
func PageGroups() []string { return []string{"Blog", "Products"} }

// A Param is one query parameter, not encoded.
type Param struct{ Name, Value string }

// A Request is one request of the trace.
type Request struct {
	At       time.Duration // since the working day began
	Account  int
	Person   int // within the account
	Property int
	Endpoint string // what follows the property in the path, such as "summary" and "movers/queries"
	Params   []Param
}

// URL returns the path and the encoded query, with the parameters in their order.
func (r Request) URL() string {
	var b strings.Builder
	b.WriteString("/v1/properties/" + Domain(r.Property) + "/" + r.Endpoint)
	separator := byte('?')
	for _, p := range r.Params {
		b.WriteByte(separator)
		b.WriteString(p.Name + "=" + url.QueryEscape(p.Value))
		separator = '&'
	}
	return b.String()
}
