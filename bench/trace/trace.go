// Package trace generates the agency trace: the requests that the dashboards of search-marketing agencies send in one working
// day. It also has two pure models of the upstream calls that a cache makes for them: URLKeyed, a cache as sold commercially, and
// Widening, the documented rules of sara's cache. Everything is a function of a Config, without clock, input or state: two
// runs with the same seed generate the same requests.
//
// # The model
//
// Agencies (accounts) have properties and people. Each property belongs to one account, and a few of an account's properties get
// most of the traffic (Zipf, exponent 1.1). Each person uses one of four clients, which write the same request differently:
//
//	web dashboard  45 %  omits defaults, tables of 10 rows
//	report tool    25 %  sends defaults, the operator "is" for "equals", tables of 25 rows
//	spreadsheet    20 %  computes dates itself, parameters in alphabetical order, limit 1000
//	script         10 %  filters and limits before the dates, tables of 100 rows
//
// A session begins at a random time within nine hours. The person picks a property and a range (see drawPeriod). Half of the
// sessions begin on the agency's home page, which shows up to 20 properties, each with its figures, those of the previous
// period, and a sparkline. Then the person opens the property's dashboard: the summary with its comparison, the timeseries,
// queries and pages; a third of the people also see countries and devices. Then follow, on average, four more actions with
// pauses of 40 seconds:
//
//	change the range, and one time in three return              33 %
//	drill down: other orders and larger limits in three tables   33 %
//	reload the dashboard                                         10 %
//	return to the agency's home page                             10 %
//	look at a segment: the dashboard with filters                 7 %
//	look at movers                                                7 %
//
// A view of twelve months has no comparison, because the previous period is beyond the upstream's 16 months. All weights
// are our assumptions, written down in generate.go and session.go; none of them are measured.
package trace

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config is the size of a trace. All fields except Seed must be set.
type Config struct {
	Seed       uint64
	Requests   int
	Accounts   int
	People     int // of each account
	Properties int // of all accounts together, at least one each
	Anchor     Day // the last day with final data; no range ends later
}

// Account returns the number of the account that a property belongs to.
func (c Config) Account(property int) int { return property % c.Accounts }

// HasSegments reports whether a property has brand terms and page groups, as each account's six most popular ones do.
func (c Config) HasSegments(property int) bool { return property/c.Accounts < 6 }

// Domain returns the bare domain of a property, by which requests name it.
func Domain(property int) string { return BrandTerm(property) + ".example" }

// BrandTerm returns the one brand term of a property that has segments.
func BrandTerm(property int) string { return fmt.Sprintf("client%03d", property) }

// PageGroups returns the names of the page groups of a property that has segments.
func PageGroups() []string { return []string{"Blog", "Products"} }

// A Param is one query parameter, unencoded.
type Param struct{ Name, Value string }

// A Request is one request of the trace.
type Request struct {
	At       time.Duration // since the start of the working day
	Account  int
	Person   int // within the account
	Property int
	Endpoint string // the end of the path, such as "summary" or "movers/queries"
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
