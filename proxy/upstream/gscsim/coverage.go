package gscsim

import (
	"strings"
	"time"
)

// coverage is one state of a URL in the index, as the inspection reports it.
type coverage struct {
	label            string // in English
	verdict          string
	fetch, indexing  string
	robots           string
	german, japanese string
}

const (
	crawlable = "INDEXING_ALLOWED"
	fetched   = "SUCCESSFUL"
	allowed   = "ALLOWED"
)

// submittedAndIndexed is the state of most pages; a sitemap lists them.
func submittedAndIndexed() coverage {
	return coverage{"Submitted and indexed", "PASS", fetched, crawlable, allowed, "Gesendet und indexiert", "送信して登録されました"}
}

func indexedNotSubmitted() coverage {
	return coverage{"Indexed, not submitted in sitemap", "PASS", fetched, crawlable, allowed,
		"Indexiert, nicht in Sitemap gesendet", "インデックスに登録されましたが、サイトマップに送信していません"}
}

func crawledNotIndexed() coverage {
	return coverage{"Crawled - currently not indexed", "NEUTRAL", fetched, crawlable, allowed,
		"Gecrawlt – zurzeit nicht indexiert", "クロール済み - インデックス未登録"}
}

func discoveredNotIndexed() coverage {
	return coverage{"Discovered - currently not indexed", "NEUTRAL", "PAGE_FETCH_STATE_UNSPECIFIED", "INDEXING_STATE_UNSPECIFIED",
		"ROBOTS_TXT_STATE_UNSPECIFIED", "Gefunden – zurzeit nicht indexiert", "検出 - インデックス未登録"}
}

func unknownToGoogle() coverage {
	return coverage{"URL is unknown to Google", "NEUTRAL", "PAGE_FETCH_STATE_UNSPECIFIED", "INDEXING_STATE_UNSPECIFIED",
		"ROBOTS_TXT_STATE_UNSPECIFIED", "URL ist Google nicht bekannt", "URL が Google に認識されていません"}
}

// rareCoverages returns the states that only few pages have.
func rareCoverages() []coverage {
	const unstated = "INDEXING_STATE_UNSPECIFIED"
	return []coverage{
		crawledNotIndexed(),
		discoveredNotIndexed(),
		{"Alternate page with proper canonical tag", "NEUTRAL", fetched, crawlable, allowed, "Alternative Seite mit richtigem kanonischen Tag",
			"代替ページ（適切な canonical タグあり）"},
		{"Duplicate without user-selected canonical", "NEUTRAL", fetched, crawlable, allowed, "Duplikat – vom Nutzer nicht als kanonisch festgelegt",
			"重複しています。ユーザーにより、正規ページとして選択されていません"},
		{"Duplicate, Google chose different canonical than user", "NEUTRAL", fetched, crawlable, allowed,
			"Duplikat – Google hat eine andere Seite als der Nutzer als kanonische Seite bestimmt",
			"重複しています。Google により、ユーザーがマークしたページとは異なるページが正規ページとして選択されました"},
		{"Excluded by ‘noindex’ tag", "NEUTRAL", fetched, "BLOCKED_BY_META_TAG", allowed, "Durch „noindex“-Tag ausgeschlossen",
			"noindex タグによって除外されました"},
		{"Page with redirect", "NEUTRAL", fetched, crawlable, allowed, "Seite mit Weiterleitung", "ページにリダイレクトがあります"},
		{"Blocked by robots.txt", "NEUTRAL", "BLOCKED_ROBOTS_TXT", unstated, "DISALLOWED", "Durch robots.txt-Datei blockiert",
			"robots.txt によりブロックされました"},
		{"Indexed, though blocked by robots.txt", "PASS", "BLOCKED_ROBOTS_TXT", unstated, "DISALLOWED",
			"Indexiert, obwohl durch robots.txt-Datei blockiert",
			"robots.txt によりブロックされましたが、インデックスに登録しました"},
		{"Indexed; consider marking as canonical", "PASS", fetched, crawlable, allowed, "Indexiert; Kennzeichnung als kanonisch erwägen",
			"インデックスに登録されました。正規ページとしてマークすることを検討してください"},
		{"Blocked by page removal tool", "NEUTRAL", fetched, crawlable, allowed, "Durch Tool zum Entfernen von Seiten blockiert",
			"ページ削除ツールによりブロックされました"},
		{"Soft 404", "NEUTRAL", fetched, crawlable, allowed, "Soft 404", "ソフト 404"},
		{"Not found (404)", "NEUTRAL", "NOT_FOUND", crawlable, allowed, "Nicht gefunden (404)", "見つかりませんでした（404）"},
		{"Server error (5xx)", "FAIL", "SERVER_ERROR", unstated, allowed, "Serverfehler (5xx)", "サーバーエラー（5xx）"},
		{"Redirect error", "FAIL", "REDIRECT_ERROR", unstated, allowed, "Umleitungsfehler", "リダイレクト エラー"},
		{"Blocked due to unauthorized request (401)", "NEUTRAL", "ACCESS_DENIED", unstated, allowed,
			"Wegen nicht autorisierter Anforderung (401) blockiert", "未承認のリクエスト（401）が原因でブロックされました"},
		{"Blocked due to access forbidden (403)", "NEUTRAL", "ACCESS_FORBIDDEN", unstated, allowed, "Wegen Zugriffsverbot (403) blockiert",
			"アクセス禁止（403）が原因でブロックされました"},
		{"Blocked due to other 4xx issue", "NEUTRAL", "BLOCKED_4XX", unstated, allowed, "Wegen eines anderen 4xx-Problems blockiert",
			"他の 4xx の問題が原因でブロックされました"},
	}
}

// rareStates is the number of rareCoverages.
const rareStates = 18

// coverageOf returns the usual state of the page at a rank. The pattern repeats every 64 pages, with 40 plainly indexed pages
// and each rare state at least once; the home page is always indexed.
func coverageOf(rank int) coverage {
	switch slot := rank * 27 % 64; {
	case slot < 40:
		return submittedAndIndexed()
	case slot < 64-rareStates:
		return indexedNotSubmitted()
	default:
		return rareCoverages()[slot-(64-rareStates)]
	}
}

// isSubmitted reports whether the sitemaps list the page at that rank.
func isSubmitted(rank int) bool { return coverageOf(rank).label != indexedNotSubmitted().label }

// coverage returns the state of the page at a rank on a day. Each plainly indexed page other than the home page drops out of the
// index for 5 to 15 days, once in its own period of 90 to 150 days.
func (w *world) coverage(rank int, d day) coverage {
	usual := coverageOf(rank)
	if rank == 0 || usual.label != submittedAndIndexed().label {
		return usual
	}
	h := hash(w.seed, 0xd40b, uint64(rank))
	period, spell := 90+h%61, 5+h>>16%11
	at := uint64(d) + h>>32%period
	switch {
	case at%period >= spell:
		return usual
	case mix(h+at/period)&1 == 0:
		return crawledNotIndexed()
	default:
		return discoveredNotIndexed()
	}
}

// PageCoverage is the index state of one URL.
type PageCoverage struct {
	URL           string
	CoverageState string // the label in English
}

// Coverage returns the results that inspections give, or would have given, at an instant: for the pages of a site, most popular
// first, then for the other URLs in its sitemaps. It is nil if no user has the site. The URLs and their order never change, and
// the caller owns the slice. It uses no quota. A year of days for 300 pages takes less than 50 ms.
func (s *Server) Coverage(siteURL string, at time.Time) []PageCoverage {
	site, ok := s.anySite(siteURL)
	if !ok {
		return nil
	}
	w, d := s.world(site), dayOf(at.In(s.pacific))
	states := make([]PageCoverage, 0, len(w.pages)+len(w.upcoming))
	for rank, page := range w.pageByRank {
		states = append(states, PageCoverage{w.pages[page], w.coverage(rank, d).label})
	}
	if len(site.sitemapPaths()) > 0 {
		for _, address := range w.upcoming {
			states = append(states, PageCoverage{address, unknownToGoogle().label})
		}
	}
	return states
}

// localized returns the label in the language of a BCP 47 code; languages other than German and Japanese get English.
func (c coverage) localized(language string) string {
	primary, _, _ := strings.Cut(strings.ToLower(language), "-")
	switch primary {
	case "de":
		return c.german
	case "ja":
		return c.japanese
	default:
		return c.label
	}
}

func (c coverage) indexed() bool { return c.verdict == "PASS" }

// crawled reports whether Google has fetched the page.
func (c coverage) crawled() bool {
	return c.fetch != "PAGE_FETCH_STATE_UNSPECIFIED" && c.fetch != "BLOCKED_ROBOTS_TXT"
}
