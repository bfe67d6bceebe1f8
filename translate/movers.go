package translate

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
)

// A mover is a key in two periods, with zeros for a period without it.
type mover struct {
	key           []byte
	now, previous Metrics
}

func (m *mover) delta() int64 { return m.now.Clicks - m.previous.Clicks }

// changePercent returns the change of clicks versus the previous period, which is 100 if that had none.
func (m *mover) changePercent() float64 {
	if m.previous.Clicks == 0 {
		return 100
	}
	return float64(m.delta()) / float64(m.previous.Clicks) * 100
}

// moversHead appends the keys with the largest gains and losses in clicks between two wide samples. A key that one sample lacks
// counts as zero there. A key with unchanged clicks is in neither list.
func moversHead(dst []byte, p *Params, by Dimension, now, previous *Rows, origin Origin) Head {
	gainers, losers := split(diff(now, previous, int64(p.MinClicks)))
	gainers, losers = gainers[:min(p.Limit, len(gainers))], losers[:min(p.Limit, len(losers))]
	const rowLength = 320
	dst = append(slices.Grow(dst, 1024+(len(gainers)+len(losers))*rowLength), opening...)
	dst = append(dst, `{"dimension":"`...)
	dst = append(dst, by.String()...)
	dst = append(dst, `","previous_range":{`...)
	dst = appendRange(dst, p.Previous())
	dst = append(dst, `},"gainers":`...)
	dst = appendMovers(dst, gainers)
	dst = append(dst, `,"losers":`...)
	dst = appendMovers(dst, losers)
	return p.appendMeta(append(dst, '}'), origin, meta{
		rowCount:  len(gainers) + len(losers),
		limit:     p.Limit,
		truncated: now.Len() >= WideSample || previous.Len() >= WideSample,
	})
}

// diff is a merge join of two samples by key, which needs no hash table of megabytes. It drops the movers whose clicks did not
// change, or stay below the floor in both periods.
func diff(now, previous *Rows, floor int64) []mover {
	byKey := Order{By: "key"}
	left, right := byKey.first(now, now.Len()), byKey.first(previous, previous.Len())
	movers := make([]mover, 0, len(left)+len(right))
	for len(left) > 0 || len(right) > 0 {
		var m mover
		c := compareHeads(now, previous, left, right)
		if c <= 0 {
			m.key, m.now = now.Key(int(left[0].row)), now.metrics[left[0].row]
			left = left[1:]
		}
		if c >= 0 {
			m.key, m.previous = previous.Key(int(right[0].row)), previous.metrics[right[0].row]
			right = right[1:]
		}
		if m.delta() != 0 && max(m.now.Clicks, m.previous.Clicks) >= floor {
			movers = append(movers, m)
		}
	}
	return movers
}

// compareHeads compares the next keys of two lists. The end of a list is larger than any key.
func compareHeads(now, previous *Rows, left, right []ranked) int {
	switch {
	case len(left) == 0:
		return 1
	case len(right) == 0:
		return -1
	}
	return bytes.Compare(now.Key(int(left[0].row)), previous.Key(int(right[0].row)))
}

// split ranks the movers, in place: largest gain first, largest loss first, ties by key.
func split(movers []mover) (gainers, losers []mover) {
	gained := 0
	for i := range movers {
		if movers[i].delta() > 0 {
			movers[gained], movers[i] = movers[i], movers[gained]
			gained++
		}
	}
	gainers, losers = movers[:gained], movers[gained:]
	slices.SortFunc(gainers, func(x, y mover) int {
		return cmp.Or(cmp.Compare(y.delta(), x.delta()), bytes.Compare(x.key, y.key))
	})
	slices.SortFunc(losers, func(x, y mover) int {
		return cmp.Or(cmp.Compare(x.delta(), y.delta()), bytes.Compare(x.key, y.key))
	})
	return gainers, losers
}

func appendMovers(dst []byte, movers []mover) []byte {
	dst = append(dst, '[')
	for i := range movers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = movers[i].append(dst)
	}
	return append(dst, ']')
}

func (m *mover) append(dst []byte) []byte {
	integer := func(name string, n int64) {
		dst = append(dst, name...)
		dst = strconv.AppendInt(dst, n, 10)
	}
	float := func(name string, f float64) {
		dst = append(dst, name...)
		dst = appendFloat(dst, f)
	}
	dst = append(dst, `{"key":`...)
	dst = appendString(dst, m.key)
	integer(`,"clicks":`, m.now.Clicks)
	integer(`,"previous_clicks":`, m.previous.Clicks)
	integer(`,"clicks_delta":`, m.delta())
	float(`,"clicks_change_pct":`, m.changePercent())
	integer(`,"impressions":`, m.now.Impressions)
	integer(`,"previous_impressions":`, m.previous.Impressions)
	float(`,"position":`, m.now.Position)
	float(`,"previous_position":`, m.previous.Position)
	return append(dst, '}')
}
