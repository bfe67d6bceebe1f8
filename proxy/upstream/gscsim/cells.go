package gscsim

// cell is the smallest fact of a day: the traffic of one query on one page from one country and device in one hour.
type cell struct {
	query, page           int32
	clicks, impressions   uint32
	positions             uint32 // summed over the impressions
	country, device, hour uint8
	// lower marks impressions of a URL below another URL of the same property: they count by page, but not by property.
	lower bool
}

// webReport separates the random draws of web search from those of reports that may be simulated in the future.
const webReport = 0

// fraction returns a number in [0, 1) from the upper 24 bits of h.
func fraction(h uint64) float32 { return float32(int32(h>>40)) / (1 << 24) }

// wave is a triangle wave between -1 and 1 with a period in days.
func wave(d day, phase, period int) float32 {
	at := (int(d) + phase) % period
	if at < 0 {
		at += period
	}
	x := 4 * float32(at) / float32(period)
	if x > 2 {
		x = 4 - x
	}
	return x - 1
}

// dayFactor scales the demand of a day for the whole site: weekday, yearly season and slow trend.
func (w *world) dayFactor(d day) float32 {
	weekday := float32(1)
	switch (int(d) + 4) % 7 { // 1970-01-01 was a Thursday
	case 0:
		weekday = 0.78
	case 6:
		weekday = 0.7
	case 5:
		weekday = 0.94
	}
	if w.seed&1 == 0 { // a leisure site: busy weekends
		weekday = 1.7 - weekday
	}
	phase := int(w.seed >> 40 & 1023)
	noise := 0.96 + 0.08*fraction(hash(w.seed, 0xd1, uint64(d)))
	return weekday * noise * (1 + 0.12*wave(d, phase, 365)) * (1 + 0.22*wave(d, phase/2, 1100))
}

// appendDay appends every cell of one day.
//
// The race detector skips this function and appendTerm: instrumented, they would take a third of the time of all answers. They read an
// immutable world and write only the cells of a loadedDay; load, which uses them, is instrumented.
//
//go:norace
func (w *world) appendDay(dst []cell, d day) []cell {
	if !w.hasTraffic(d) {
		return dst
	}
	factor := w.dayFactor(d)
	seed := hash(w.seed, webReport, uint64(d))
	for i := range w.terms {
		x := &w.terms[i]
		if x.lifespan > 0 && (int(d)+int(x.phase))%int(x.cycle) >= int(x.lifespan) {
			continue
		}
		h := mix(seed + uint64(i))
		demand := x.base * factor * (1 + x.swing*wave(d, int(x.phase), int(x.period)))
		demand *= 0.8 + 0.4*fraction(h)
		// Draw the fraction, so that rare demand appears on some days and keeps its average.
		if n := int(demand + fraction(h<<40)); n > 0 {
			dst = w.appendTerm(dst, x, d, n, h)
		}
	}
	return dst
}

// maxParts bounds the cells of one term on one day.
const maxParts = 16

// appendTerm spreads n impressions of a term over countries, devices, hours and pages.
//
//go:norace
func (w *world) appendTerm(dst []cell, x *term, d day, n int, h uint64) []cell {
	base := x.position * (1 + 0.15*wave(d, int(x.phase)*3, int(x.period)/2))
	for left, parts := n, min(1+n/6, maxParts); parts > 0; parts-- {
		h = mix(h)
		m := left
		if parts > 1 { // half to one and a half of an equal part
			m = max(1, min(left-parts+1, int(float32(left)*w.portion[parts]*float32(int32(128+h&255)))))
		}
		left -= m
		c := cell{
			query: x.query, page: x.pages[0], impressions: uint32(m),
			country: w.countryTable[h>>8&1023], device: deviceOf(h >> 18 & 255), hour: w.hourTable[h>>26&255],
		}
		if x.nPages > 1 && h>>34&3 == 0 {
			c.page = x.pages[1+h>>36&1&uint64(x.nPages-2)]
		}
		position := max(1, base*(0.85+0.3*fraction(h<<8)))
		c.positions = max(c.impressions, uint32(position*float32(m)+0.5))
		rate := min(0.9, x.appeal*w.ctr[min(int(position*4), len(w.ctr)-1)])
		c.clicks = min(c.impressions, uint32(rate*float32(m)+fraction(h)))
		dst = append(dst, c)
		if x.pages[1] != x.pages[0] && x.nPages > 1 && h>>37&3 == 0 {
			dst = append(dst, lowerResult(c, x))
		}
	}
	return dst
}

// lowerResult returns the cell of the property's second URL in the same results.
func lowerResult(c cell, x *term) cell {
	page := x.pages[1]
	if page == c.page {
		page = x.pages[0]
	}
	m := (c.impressions + 1) / 2
	c.positions = (c.positions/c.impressions + 3) * m
	c.page, c.impressions, c.clicks, c.lower = page, m, 0, true
	return c
}

func deviceOf(h uint64) uint8 {
	switch {
	case h < 95:
		return 0
	case h < 244:
		return 1
	default:
		return 2
	}
}
