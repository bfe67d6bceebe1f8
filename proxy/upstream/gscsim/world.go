package gscsim

import (
	"math"
	"slices"
	"strings"
)

// world holds the facts of a site that do not change from day to day. It is immutable, except for its cache of totals.
type world struct {
	seed        uint64
	traffic     traffic
	queries     []string // ascending
	pages       []string // ascending
	upcoming    []string // URLs that sitemaps list but that are not pages yet
	countries   []string // ascending
	appearances []string // ascending
	pageRank    []int32  // popularity of each page
	pageByRank  []int32
	appearance  []int8 // of each page; -1 for none
	terms       []term
	totals      totalsCache

	countryTable [1024]uint8
	hourTable    [256]uint8
	ctr          [401]float32          // clicks per impression by position, in quarters
	portion      [maxParts + 1]float32 // by number of parts: 1 / (256 * parts)
}

// none marks an anonymised query and an absent rich result.
const none = -1

// term is a recurring daily demand: a named or an anonymised query.
type term struct {
	base     float32 // impressions on an average day
	position float32 // average position
	appeal   float32 // scales the click-through rate
	swing    float32 // amplitude of demand around its average, -0.8 to 0.8
	query    int32
	pages    [3]int32
	nPages   uint8
	period   uint16 // days of one swing
	phase    uint16
	lifespan uint16 // active days of each cycle; 0 means always
	cycle    uint16
}

func newWorld(key worldKey) *world {
	w := &world{seed: hashText(key.seed, key.url), traffic: key.traffic()}
	byRank := queryTexts(w.seed, key.brand, key.queries)
	var queryOf []int32
	w.queries, queryOf = ascending(byRank)
	urls := pageURLs(w.seed, key.url, key.pages+max(1, key.pages/20))
	w.pages, w.pageByRank = ascending(urls[:key.pages])
	w.upcoming = urls[key.pages:]
	w.pageRank = make([]int32, len(w.pages))
	for rank, page := range w.pageByRank {
		w.pageRank[page] = int32(rank)
	}
	w.appearances = appearances()
	w.appearance = make([]int8, len(w.pages))
	for page, rank := range w.pageRank {
		w.appearance[page] = none
		if h := hash(w.seed, 0xa99, uint64(rank)); h%4 == 0 {
			w.appearance[page] = int8(h >> 32 % uint64(len(w.appearances)))
		}
	}
	w.fillTables()
	w.fillTerms(byRank, queryOf, key.brand)
	return w
}

// ascending returns the texts in ascending order, and the position of each given text in it.
func ascending(texts []string) (sorted []string, place []int32) {
	order := make([]int32, len(texts))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(texts[a], texts[b]) })
	sorted, place = make([]string, len(texts)), make([]int32, len(texts))
	for to, from := range order {
		sorted[to], place[from] = texts[from], int32(to)
	}
	return sorted, place
}

func (w *world) fillTables() {
	keys, weights := countries()
	w.countries = keys
	// Half of the sites have a home country other than the United States.
	if home := hash(w.seed, 0xc0) % uint64(2*len(keys)); home < uint64(len(keys)) {
		weights[home] += 500
	}
	fill(w.countryTable[:], weights)
	fill(w.hourTable[:], []int{5, 4, 3, 3, 3, 4, 6, 8, 10, 12, 13, 13, 13, 13, 12, 12, 12, 13, 14, 15, 15, 14, 11, 8})
	for parts := 1; parts <= maxParts; parts++ {
		w.portion[parts] = 1 / float32(256*parts)
	}
	for i := range w.ctr {
		w.ctr[i] = float32(0.31 / math.Pow(math.Max(1, float64(i)/4), 1.15))
	}
}

// fill distributes indexes over the table by weight; each gets at least one slot.
func fill(table []uint8, weights []int) {
	total := 0
	for _, weight := range weights {
		total += weight
	}
	at, sum := 0, 0
	for i, weight := range weights {
		sum += weight
		for end := max(at+1, sum*len(table)/total); at < end && at < len(table); at++ {
			table[at] = uint8(i)
		}
	}
}

// fillTerms gives each named and each anonymised query its demand: a few head terms and a long tail. More queries mean
// a longer tail, not proportionally more traffic.
func (w *world) fillTerms(byRank []string, queryOf []int32, brand string) {
	n := len(byRank)
	total := 18000 * math.Pow(float64(n)/1500, 0.7)
	head := total / math.Max(1, math.Log(float64(n)/3+1))
	for rank, text := range byRank {
		t := w.newTerm(hash(w.seed, 0x7e, uint64(rank)), queryOf[rank])
		t.base = float32(head / (float64(rank) + 3))
		if strings.Contains(strings.ToLower(text), brand) {
			t.position, t.appeal, t.lifespan = 1+t.position/20, 1.6, 0
		}
		w.terms = append(w.terms, t)
	}
	anonymised := max(1, n/5)
	for i := range anonymised {
		t := w.newTerm(hash(w.seed, 0xa0, uint64(i)), none)
		t.base = float32(0.25 * total / float64(anonymised))
		w.terms = append(w.terms, t)
	}
}

func (w *world) newTerm(h uint64, query int32) term {
	unit := func() float64 {
		h = mix(h)
		return float64(h>>11) / (1 << 53)
	}
	t := term{
		query:    query,
		position: float32(1.2 + 45*math.Pow(unit(), 2.2)),
		appeal:   float32(0.6 + 0.8*unit()),
		swing:    float32(1.6*unit() - 0.8),
		period:   uint16(200 + 600*unit()),
		phase:    uint16(800 * unit()),
		cycle:    uint16(180 + 400*unit()),
	}
	if unit() < 0.15 {
		t.lifespan = uint16(float64(t.cycle) * (0.4 + 0.4*unit()))
	}
	t.nPages = uint8(1 + 2.99*unit()*unit())
	for i := range t.pages {
		t.pages[i] = w.pageByRank[int(float64(len(w.pages))*math.Pow(unit(), 2.5))]
	}
	return t
}
