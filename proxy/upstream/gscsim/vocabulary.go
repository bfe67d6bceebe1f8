package gscsim

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// hash mixes words into one with the finaliser of SplitMix64.
func hash(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h = mix(h ^ w)
	}
	return h
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashText(seed uint64, text string) uint64 {
	h := seed
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 0x100000001b3
	}
	return mix(h)
}

// vocabulary returns the words of queries and pages.
type vocabulary struct{ nouns, adjectives, intents, tails, foreign []string }

func newVocabulary() *vocabulary {
	return &vocabulary{nouns: nouns(), adjectives: adjectives(), intents: intents(), tails: tails(), foreign: foreign()}
}

func words(text string) []string { return strings.Fields(text) }

func phrases(text string) []string { return strings.Split(text, "|") }

func nouns() []string {
	return words(`boots sandals sneakers backpack tent kettle espresso grinder lamp sofa mattress curtain keyboard monitor
		headphones camera tripod drone bicycle helmet saddle kayak paddle skis snowboard jacket raincoat scarf gloves wallet
		watch necklace teapot skillet blender toaster planter shovel hammock notebook`)
}

func adjectives() []string {
	return words(`waterproof leather vegan lightweight vintage foldable wireless ergonomic organic handmade insulated
		portable wooden steel cotton wool silent compact heated ultralight recycled modular adjustable magnetic padded
		breathable reversible stackable electric solar`)
}

func intents() []string {
	return phrases(`best|cheap|buy|how to clean|how to repair|what is|why choose|where to find|top rated|discount|used|compare` +
		`|review of|alternatives to|ideas for|small|large|second hand|luxury|how much is a|new|which`)
}

func tails() []string {
	return phrases(`near me|for kids|for women|for men|size guide|2025|2026|under 100|with free shipping|in berlin|in london` +
		`|in austin|for beginners|for travel|for winter|for summer|on sale|warranty|manual|spare parts|dimensions|weight|online` +
		`|wholesale|returns|for small rooms|for tall people|gift ideas|colors|reviews|care instructions|instructions pdf`)
}

func foreign() []string {
	return phrases(`café münchen|東京 靴|купить чайник|حقيبة ظهر|größe tabelle|niño zapatos|캠핑 텐트|ποδήλατο τιμή|lampka łóżko|🌷 vase|čaj konvice`)
}

// brandQuery returns the n-th spelling of a search for the brand.
func brandQuery(brand string, n int, rest string) string {
	upper := strings.ToUpper(brand[:1]) + brand[1:]
	typo := brand + brand[len(brand)-1:]
	forms := []string{brand, brand, brand, upper, brand + ".com", typo, strings.ToUpper(brand), brand}
	form := forms[n%len(forms)]
	if n < len(forms) && n != 1 && n != 2 && n != 7 {
		return form
	}
	return form + " " + rest
}

// queryText returns the query of a rank; distinct ranks may give equal texts.
func (v *vocabulary) queryText(seed uint64, brand string, rank int) string {
	h := hash(seed, uint64(rank))
	pick := func(list []string) string {
		h = mix(h)
		return list[h%uint64(len(list))]
	}
	noun, adjective := pick(v.nouns), pick(v.adjectives)
	switch {
	case rank == 0:
		return brand
	case rank%6 == 0 || rank == 1:
		return brandQuery(brand, rank/6, pick([]string{noun, pick(v.tails), noun + " " + pick(v.tails), adjective + " " + noun}))
	case rank%53 == 5:
		return pick(v.foreign) + " " + noun
	case rank%61 == 7:
		return `"` + adjective + " " + noun + `" ` + pick(v.tails)
	case rank%67 == 9:
		return `c:\` + adjective + `\` + noun
	case rank%71 == 11:
		return adjective + " " + noun + "\n" + pick(v.tails)
	case rank%73 == 13:
		return "<b>" + noun + "</b> & " + pick(v.nouns)
	case rank%79 == 15:
		return "women's " + adjective + " " + noun
	}
	switch h >> 60 {
	case 0, 1:
		return noun + " " + pick(v.tails)
	case 2, 3, 4:
		return adjective + " " + noun
	case 5, 6, 7:
		return pick(v.intents) + " " + noun
	case 8, 9, 10, 11:
		return pick(v.intents) + " " + adjective + " " + noun
	default:
		return adjective + " " + noun + " " + pick(v.tails)
	}
}

// queryTexts returns n distinct queries, most popular first.
func queryTexts(seed uint64, brand string, n int) []string {
	v := newVocabulary()
	texts := make([]string, n)
	seen := make(map[string]bool, n)
	for rank := range texts {
		text := v.queryText(seed, brand, rank)
		for extra := rank; seen[text]; extra++ {
			text += " " + strconv.Itoa(extra)
		}
		seen[text] = true
		texts[rank] = text
	}
	return texts
}

// pageURLs returns n distinct pages of the site, most popular first; the first is the home page.
func pageURLs(seed uint64, siteURL string, n int) []string {
	v := newVocabulary()
	root := siteRoot(siteURL)
	urls := make([]string, n)
	for rank := range urls {
		urls[rank] = root + v.pagePath(hash(seed, 0x9a9e, uint64(rank)), rank)
	}
	return urls
}

// pagePath ends in the rank, so paths are distinct.
func (v *vocabulary) pagePath(h uint64, rank int) string {
	if rank == 0 {
		return ""
	}
	pick := func(list []string) string {
		h = mix(h)
		return list[h%uint64(len(list))]
	}
	slug := fmt.Sprintf("%s-%s-%d", pick(v.adjectives), pick(v.nouns), rank)
	switch {
	case rank%37 == 3:
		return "blog/" + url.PathEscape(pick(v.foreign)) + "-" + strconv.Itoa(rank)
	case rank%41 == 5:
		return "products/" + pick(v.nouns) + "%2C-" + slug
	case rank%43 == 7:
		return "search?q=" + url.QueryEscape(pick(v.nouns)) + "&page=" + strconv.Itoa(rank)
	}
	switch h >> 61 {
	case 0, 1, 2:
		return "products/" + slug
	case 3, 4:
		return "blog/" + slug
	case 5:
		return "docs/" + slug + ".html"
	case 6:
		return "categories/" + pick(v.nouns) + "/" + slug + "/"
	default:
		return slug
	}
}

// siteRoot returns the URL prefix of a property's pages: the prefix itself, or the www host of a domain.
func siteRoot(siteURL string) string {
	if domain, ok := strings.CutPrefix(siteURL, "sc-domain:"); ok {
		return "https://www." + domain + "/"
	}
	return siteURL
}

// siteBrand returns the host's own name, "example" of www.example.com.
func siteBrand(siteURL string) string {
	u, err := url.Parse(siteRoot(siteURL))
	if err != nil {
		return "brand"
	}
	label, _, _ := strings.Cut(strings.TrimPrefix(u.Hostname(), "www."), ".")
	if label == "" {
		return "brand"
	}
	return label
}

// countries returns the keys in ascending order, each with its weight.
func countries() ([]string, []int) {
	table := words(`are 8 arg 7 aus 22 aut 9 bel 10 bgd 5 bgr 3 bra 25 can 30 che 11 chl 4 chn 3 col 5 cze 6 deu 60 dnk 7 egy 4
		esp 20 est 2 fin 6 fra 35 gbr 80 grc 4 hkg 5 hrv 2 hun 4 idn 14 ind 60 irl 9 isr 4 ita 22 jpn 18 ken 3 kor 8 lka 2 lux 1
		mar 2 mex 14 mys 7 nga 6 nld 18 nor 7 nzl 6 pak 7 per 3 phl 10 pol 14 prt 6 rou 5 rus 6 sau 5 sgp 7 srb 2 svk 2 svn 1
		swe 9 tha 6 tur 8 twn 5 ukr 4 usa 300 vnm 5 xkk 1 zaf 8 zzz 3`)
	keys, weights := make([]string, len(table)/2), make([]int, len(table)/2)
	for i := range keys {
		keys[i] = table[2*i]
		weights[i] = int(table[2*i+1][0] - '0')
		for _, c := range table[2*i+1][1:] {
			weights[i] = weights[i]*10 + int(c-'0')
		}
	}
	return keys, weights
}

func devices() []string { return []string{"DESKTOP", "MOBILE", "TABLET"} }

func appearances() []string {
	return []string{"PRODUCT_SNIPPETS", "REVIEW_SNIPPET", "TRANSLATED_RESULT", "VIDEO"}
}
