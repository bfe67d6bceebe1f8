package translate

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// DefaultOrder is the order of the upstream's ranking.
const DefaultOrder = "-clicks"

// Orders returns the values of order_by.
func Orders() []string {
	var orders []string
	for _, by := range []string{"clicks", "impressions", "ctr", "position", "key"} {
		orders = append(orders, by, "-"+by)
	}
	return orders
}

// An Order is a value of order_by. Ties are in ascending key order, in either direction.
type Order struct {
	By         string // clicks, impressions, ctr, position or key
	Descending bool
}

func parseOrder(s string) Order {
	by, descending := strings.CutPrefix(s, "-")
	return Order{By: by, Descending: descending}
}

// String returns the value of order_by.
func (o Order) String() string {
	if o.Descending {
		return "-" + o.By
	}
	return o.By
}

// isUpstream reports whether the upstream returns its rows in this order.
func (o Order) isUpstream() bool { return o.By == "clicks" && o.Descending }

// ranked is a row with its sort value.
type ranked struct {
	value float64
	row   int32
}

// first returns the first n rows in the order o, or all rows if there are fewer. It is a partial sort: once n rows are sorted,
// a row that comes after all of them is skipped.
func (o Order) first(rows *Rows, n int) []ranked {
	n = min(n, rows.Len())
	if o.isUpstream() && rows.areRanked() {
		first := make([]ranked, n)
		for i := range first {
			first[i].row = int32(i)
		}
		return first
	}
	value := o.value()
	compare := func(a, b ranked) int { return o.compare(rows, a, b) }
	first := make([]ranked, 0, min(2*n, rows.Len()))
	sorted := 0
	for i := range rows.Len() {
		r := ranked{value: value(&rows.metrics[i]), row: int32(i)}
		if sorted > 0 && o.compare(rows, first[sorted-1], r) < 0 {
			continue
		}
		if len(first) == cap(first) {
			slices.SortFunc(first, compare)
			first, sorted = first[:n], n
		}
		first = append(first, r)
	}
	slices.SortFunc(first, compare)
	return first[:n]
}

// areRanked reports whether the rows that are here are in the order of the upstream's ranking, with ties by key.
func (r *Rows) areRanked() bool { return r.ordered || r.areRankedBy(r.has()) }

// areRankedBy reports whether the rows are in the order of the upstream's ranking, with ties by key in two parts: the first cut rows, and
// the others. The upstream leaves the order of ties open.
func (r *Rows) areRankedBy(cut int) bool {
	before := int64(0)
	for i := range r.metrics {
		clicks := r.metrics[i].Clicks
		if clicks >= before && i > 0 && i != cut && (clicks > before || bytes.Compare(r.Key(i-1), r.Key(i)) > 0) {
			return false
		}
		before = clicks
	}
	return true
}

func (o Order) compare(rows *Rows, a, b ranked) int {
	if c := cmp.Compare(a.value, b.value); c != 0 {
		return c
	}
	c := bytes.Compare(rows.Key(int(a.row)), rows.Key(int(b.row)))
	if o.By == "key" && o.Descending {
		return -c
	}
	return c
}

// value returns the function of a row's figures that ascends in the order o. Counts are below 2^53, which a float64 holds exactly.
func (o Order) value() func(*Metrics) float64 {
	sign := 1.0
	if o.Descending {
		sign = -1
	}
	switch o.By {
	case "clicks":
		return func(m *Metrics) float64 { return sign * float64(m.Clicks) }
	case "impressions":
		return func(m *Metrics) float64 { return sign * float64(m.Impressions) }
	case "ctr":
		return func(m *Metrics) float64 { return sign * m.CTR }
	case "position":
		return func(m *Metrics) float64 { return sign * m.Position }
	}
	return func(*Metrics) float64 { return 0 }
}
