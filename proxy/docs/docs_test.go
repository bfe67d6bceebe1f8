package docs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codes are those of the explanations, so that New accepts them.
func codes() (list []Code) {
	for _, x := range Explanations() {
		list = append(list, Code{Name: x.Code, Status: 400})
	}
	return list
}

func pages(t *testing.T, base string) *Pages {
	t.Helper()
	p, err := New(Config{BaseURL: base, DocsURL: base + Path, Codes: codes()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func plain(f *File) string {
	body, _ := f.Content(false)
	return string(body)
}

// Every code has an explanation, and every explanation a code.
func TestEveryCodeIsExplained(t *testing.T) {
	all := codes()
	for name, list := range map[string][]Code{
		"is not explained": append(codes(), Code{Name: "NEW_CODE", Status: 400}),
		"does not exist":   all[1:],
	} {
		_, err := New(Config{BaseURL: "https://api.example.com", Codes: list})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New returns the error %v, want one that says: %s", err, name)
		}
	}
	for _, x := range Explanations() {
		if x.When == "" || x.Do == "" || x.Message == "" {
			t.Errorf("the explanation of %s is incomplete: %+v", x.Code, x)
		}
	}
}

// The codes can be linked to, with or without scripts.
func TestEveryCodeHasAnAnchor(t *testing.T) {
	reference := plain(pages(t, "https://api.example.com").File(""))
	for _, code := range codes() {
		if strings.Count(reference, `<article id="`+code.Name+`">`) != 1 || !strings.Contains(reference, `<a href="#`+code.Name+`">`) {
			t.Errorf("%s has no anchor, or is not in the index", code.Name)
		}
	}
}

// Everything that a page links to or loads exists, and only links that a reader may follow lead to other hosts.
func TestLinksAreNotBroken(t *testing.T) {
	const base, root = "https://example.org/api", "/api"
	p := pages(t, base)
	link := regexp.MustCompile(`\b(href|src|data-document)="([^"]*)"`)
	for place, f := range p.files {
		if f.Type != typeHTML {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(plain(f), -1) {
			kind, target := found[1], found[2]
			target, anchor, _ := strings.Cut(target, "#")
			switch {
			case target == "" || strings.HasPrefix(target, root+Path):
				to := f
				if target != "" {
					to = p.File(strings.TrimPrefix(target, root+Path))
				}
				if to == nil || anchor != "" && !strings.Contains(plain(to), ` id="`+anchor+`"`) {
					t.Errorf("%s%s links to %s, which is not there", Path, place, found[2])
				}
			case target == root+"/v1/openapi.json", kind == "href" && slices.Contains([]string{"https://github.com/google/re2/wiki/Syntax",
				"https://console.cloud.google.com", "https://search.google.com/search-console", "https://myaccount.google.com/connections"}, target):
			default:
				t.Errorf("%s%s has the address %s of another host", Path, place, found[2])
			}
		}
	}
}

// The policy forbids inline scripts and styles.
func TestNothingIsInline(t *testing.T) {
	inline := regexp.MustCompile(`<style|<script>|\sstyle=|\son[a-z]+=|javascript:`)
	p := pages(t, "https://api.example.com")
	for place, f := range p.files {
		if found := inline.FindString(plain(f)); f.Type == typeHTML && found != "" {
			t.Errorf("%s%s has %q", Path, place, found)
		}
	}
}

func TestPagesNameTheBaseURL(t *testing.T) {
	p := pages(t, "https://search.example.org/api")
	for _, place := range []string{"", "/guides/first-request", "/guides/limits"} {
		text := plain(p.File(place))
		if !strings.Contains(text, "https://search.example.org/api") || strings.Contains(text, baseMark) || strings.Contains(text, docsMark) {
			t.Errorf("%s%s is not about its own base URL", Path, place)
		}
	}
}

// The copy of Swagger UI is the published one, unchanged and complete.
func TestVendoredFilesMatchTheirChecksums(t *testing.T) {
	note, err := os.ReadFile("swagger-ui/VENDOR.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+\\.gz)` \\| `([0-9a-f]{64})` \\|$").FindAllSubmatch(note, -1)
	if len(rows) != 2 {
		t.Fatalf("VENDOR.md lists %d files, want 2", len(rows))
	}
	for _, row := range rows {
		packed, err := os.ReadFile("swagger-ui/" + string(row[1]))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(unpack(packed)); hex.EncodeToString(sum[:]) != string(row[2]) {
			t.Errorf("%s has the SHA-256 %x, VENDOR.md says %s", row[1], sum, row[2])
		}
	}
}

// Both forms of a file have the same content, and different tags.
func TestGzipAndPlainFormsAgree(t *testing.T) {
	for place, f := range pages(t, "https://api.example.com").files {
		body, tag := f.Content(false)
		packed, packedTag := f.Content(true)
		if !bytes.Equal(unpack(packed), body) || len(body) == 0 {
			t.Errorf("%s%s in gzip differs from the plain form", Path, place)
		}
		if tag == packedTag || !strings.HasPrefix(tag, `"`) {
			t.Errorf("%s%s has the tags %s and %s", Path, place, tag, packedTag)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	all := codes()
	for b.Loop() {
		if _, err := New(Config{BaseURL: "https://api.example.com", DocsURL: "https://api.example.com/docs", Codes: all}); err != nil {
			b.Fatal(err)
		}
	}
}
