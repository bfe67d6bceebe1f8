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
	compare := func(a, b ranked) int { return o.compare(rows, a, b) }
	first := make([]ranked, 0, min(2*n, rows.Len()))
	sorted := 0
	for i := range rows.metrics {
		r := ranked{value: o.value(&rows.metrics[i]), row: int32(i)}
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

// value returns a number that ascends in the order o. Counts are below 2^53, which a float64 holds exactly.
func (o Order) value(m *Metrics) (v float64) {
	switch o.By {
	case "clicks":
		v = float64(m.Clicks)
	case "impressions":
		v = float64(m.Impressions)
	case "ctr":
		v = m.CTR
	case "position":
		v = m.Position
	}
	if o.Descending {
		return -v
	}
	return v
}
