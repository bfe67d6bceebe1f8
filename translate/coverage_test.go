package translate

import (
	"strings"
	"testing"
)

// The labels that Search Console is known to use, by bucket.
func TestBucketOfKnownLabels(t *testing.T) {
	f := func(want Bucket, labels ...string) {
		t.Helper()
		for _, label := range labels {
			for _, spelling := range []string{label, strings.ToUpper(label), "  " + strings.ReplaceAll(label, " ", "\u00a0 ") + "\n",
				strings.ReplaceAll(label, "-", "–"), strings.ReplaceAll(label, "‘", "'"), strings.ReplaceAll(label, "’", "”")} {
				if got, known := BucketOf(spelling); got != want || !known {
					t.Errorf("%q: %v, %v, want %v", spelling, got, known, want)
				}
			}
		}
	}
	f(BucketIndexed, "Submitted and indexed", "Indexed, not submitted in sitemap", "Indexed, though blocked by robots.txt",
		"Indexed; consider marking as canonical", "Indexed, low interest")
	f(BucketNotIndexed, "Crawled - currently not indexed", "Discovered - currently not indexed", "Alternate page with proper canonical tag",
		"Duplicate without user-selected canonical", "Duplicate, Google chose different canonical than user",
		"Duplicate, submitted URL not selected as canonical", "Excluded by ‘noindex’ tag", "Page with redirect", "Blocked by page removal tool",
		"Blocked by robots.txt")
	f(BucketError, "Soft 404", "Not found (404)", "Server error (5xx)", "Redirect error", "Blocked due to unauthorized request (401)",
		"Blocked due to access forbidden (403)", "Blocked due to other 4xx issue",
		"Submitted URL marked ‘noindex’", "Submitted URL not found (404)", "Submitted URL seems to be a Soft 404")
	f(BucketUnknown, "URL is unknown to Google")
}

func TestBucketOfOtherLabelsIsUnknown(t *testing.T) {
	for _, label := range []string{"", " ", "Indexed", "Not indexed", "Gecrawlt – zurzeit nicht indexiert",
		"送信して登録されました", "PASS", "Submitted URL", "Submitted and  indexed!", "404", "Soft 404s", "\xff\xfe",
		strings.Repeat("indexed ", 1000)} {
		if got, known := BucketOf(label); got != BucketUnknown || known {
			t.Errorf("%q: %v, %v", label, got, known)
		}
	}
}

func TestBucketsHaveNamesAndKeepTheirNumbers(t *testing.T) {
	want := []string{"", "indexed", "not_indexed", "error", "unknown", ""} // by number: the database stores these
	for number, name := range want {
		if got := Bucket(number).String(); got != name {
			t.Errorf("bucket %d is %q, want %q", number, got, name)
		}
		if name != "" && parseBucket(name) != Bucket(number) {
			t.Errorf("%s is read as %d", name, parseBucket(name))
		}
	}
	if len(Buckets()) != 4 || parseBucket("Indexed") != 0 || parseBucket("") != 0 {
		t.Error("there are four buckets, by their exact names")
	}
}

func FuzzFoldCoverage(f *testing.F) {
	for _, label := range []string{"Excluded by ‘noindex’ tag", " A  –\u00a0b ", "İ", "\u2028", "ſ", "K", "\xff", "\u200b–\u200b"} {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		folded := FoldCoverage(label)
		if again := FoldCoverage(folded); again != folded {
			t.Errorf("%q folds to %q, and that to %q", label, folded, again)
		}
		if strings.ContainsAny(folded, "‘’–\n\u00a0") || strings.Contains(folded, "  ") {
			t.Errorf("%q folds to %q", label, folded)
		}
		a, known := BucketOf(label)
		if b, too := BucketOf(folded); a != b || known != too {
			t.Errorf("%q is %v, folded %v", label, a, b)
		}
	})
}
