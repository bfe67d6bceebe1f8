package translate

import "strings"

// A Bucket summarizes whether a URL is in the upstream's index (spec: Indexing summary payload).
type Bucket uint8

// The buckets of inspected URLs. The zero Bucket means not inspected yet. The database stores these numbers.
const (
	BucketIndexed    Bucket = iota + 1
	BucketNotIndexed        // excluded, perhaps on purpose: a duplicate, a redirect, noindex
	BucketError             // excluded because something is broken
	BucketUnknown           // the upstream does not know the URL, or uses a label that we do not know
)

// Buckets returns all buckets.
func Buckets() []Bucket { return []Bucket{BucketIndexed, BucketNotIndexed, BucketError, BucketUnknown} }

// String returns the bucket's name in the API, which is empty for the zero Bucket.
func (b Bucket) String() string {
	switch b {
	case BucketIndexed:
		return "indexed"
	case BucketNotIndexed:
		return "not_indexed"
	case BucketError:
		return "error"
	case BucketUnknown:
		return "unknown"
	}
	return ""
}

func parseBucket(name string) Bucket {
	for _, b := range Buckets() {
		if b.String() == name {
			return b
		}
	}
	return 0
}

// BucketOf returns the bucket of an English coverage label, and whether Search Console is known to use the label. The verdict
// beside the label does not help: it is neutral for a soft 404 and for a redirect alike. Spellings are folded first, see
// FoldCoverage.
func BucketOf(label string) (b Bucket, known bool) {
	switch folded := FoldCoverage(label); folded {
	case "submitted and indexed",
		"indexed, not submitted in sitemap",
		"indexed, though blocked by robots.txt",
		"indexed; consider marking as canonical",
		"indexed, low interest":
		return BucketIndexed, true
	case "crawled - currently not indexed",
		"discovered - currently not indexed",
		"alternate page with proper canonical tag",
		"duplicate without user-selected canonical",
		"duplicate, google chose different canonical than user",
		"duplicate, submitted url not selected as canonical",
		"excluded by 'noindex' tag",
		"page with redirect",
		"blocked by page removal tool",
		"blocked by robots.txt":
		return BucketNotIndexed, true
	case "soft 404",
		"not found (404)",
		"server error (5xx)",
		"redirect error",
		"blocked due to unauthorized request (401)",
		"blocked due to access forbidden (403)",
		"blocked due to other 4xx issue":
		return BucketError, true
	case "url is unknown to google":
		return BucketUnknown, true
	default:
		// A family of older labels: "Submitted URL not found (404)", "Submitted URL marked 'noindex'" and more.
		if strings.HasPrefix(folded, "submitted url ") {
			return BucketError, true
		}
	}
	return BucketUnknown, false
}

// FoldCoverage returns the canonical spelling of a coverage label, of which Search Console varies the quotes, dashes and
// spaces: in lower case, with straight quotes, hyphens and single spaces.
func FoldCoverage(label string) string {
	straight := strings.Map(func(r rune) rune {
		switch r {
		case '‘', '’', '‚', '‛', '“', '”', '„', '"', '`', '´', '′', '«', '»', '‹', '›':
			return '\''
		case '‐', '‑', '‒', '–', '—', '―', '−':
			return '-'
		case '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff':
			return -1 // zero-width
		}
		return r
	}, label)
	return strings.ToLower(strings.Join(strings.Fields(straight), " "))
}
