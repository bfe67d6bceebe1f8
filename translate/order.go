package translate

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// DefaultOrder is the upstream's own ranking.
const DefaultOrder = "-clicks"

// Orders returns every value of order_by.
func Orders() []string {
	var orders []string
	for _, by := range []string{"clicks", "impressions", "ctr", "position", "key"} {
		orders = append(orders, by, "-"+by)
	}
	return orders
}

// An Order is a value of order_by. Ties are in ascending key order, whatever the direction.
type Order struct {
	By         string // clicks, impressions, ctr, position or key
	Descending bool
}

func parseOrder(s string) Order {
	by, descending := strings.CutPrefix(s, "-")
	return Order{By: by, Descending: descending}
}

// isUpstream reports whether the upstream ranks its rows like this by itself.
func (o Order) isUpstream() bool { return o.By == "clicks" && o.Descending }

// ranked is a row and what it is sorted by.
type ranked struct {
	value float64
	row   int32
}

// ranking returns the rows in the order o.
func (o Order) ranking(rows *Rows) []ranked {
	ranking := make([]ranked, rows.Len())
	for i := range ranking {
		ranking[i] = ranked{value: o.value(&rows.metrics[i]), row: int32(i)}
	}
	slices.SortFunc(ranking, func(a, b ranked) int {
		if c := cmp.Compare(a.value, b.value); c != 0 {
			return c
		}
		c := bytes.Compare(rows.Key(int(a.row)), rows.Key(int(b.row)))
		if o.By == "key" && o.Descending {
			return -c
		}
		return c
	})
	return ranking
}

// value returns a number that sorts upwards in the order o. Counts stay below 2^53, so that a float holds them exactly.
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
