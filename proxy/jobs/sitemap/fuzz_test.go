package sitemap

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Parsing any file ends without a panic, and the result is within the bounds.
func FuzzParse(f *testing.F) {
	for _, content := range []string{
		urlset(pages(3)...), index("https://www.example.com/a.xml", "file:///x", "https://a:b@www.example.com/"), zipped(urlset(pages(2)...)),
		zipped(zipped("https://example.com/")),
		"\ufeffhttps://example.com/a\nb\n", "\xff\xfeh\x00t\x00t\x00p\x00:\x00/\x00/\x00", `<?xml version="1.0" encoding="shift_jis"?><urlset/>`,
		"<!DOCTYPE x [<!ENTITY a 'b'>]><urlset><url><loc><![CDATA[https://example.com/]]></loc></url>", strings.Repeat("<a>", 40),
		`<a:urlset xmlns:a="b"><a:url><a:loc>https://example.com/&#228;</a:loc></a:url></a:urlset>`,
	} {
		f.Add([]byte(content))
	}
	scope := Scope{domain: "example.com"}
	reader, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		g := newFindings(reader, scope, 100)
		g.addPath("https://www.example.com/index.xml")
		text, err := decode(bytes.NewReader(content), 1<<20, new(int64))
		if err == nil {
			err = parse(text, &fuzzSink{t: t, fileSink: fileSink{findings: g, file: g.files[0]}})
		}
		if err != nil && reader.explain(err) == "" {
			t.Errorf("no reason for %v", err)
		}
		found := g.found()
		if len(found.URLs) > 100 || len(found.Files) > reader.limits.Files || found.Files[0].URLs != len(found.URLs) {
			t.Errorf("%d addresses, %d files, file %+v", len(found.URLs), len(found.Files), found.Files[0])
		}
		for _, u := range found.URLs {
			wantStored(t, scope, u.Address)
			if !slices.Equal(u.Files, []int32{0}) {
				t.Errorf("%s in files %v", u.Address, u.Files)
			}
		}
		for _, file := range found.Files[1:] {
			if len(file.Path) > maxAddress || !isASCII(file.Path) || !slices.Equal(file.Above, []int32{0}) {
				t.Errorf("file %+v", file)
			}
		}
	})
}

type fuzzSink struct {
	fileSink
	t *testing.T
}

func (s *fuzzSink) add(address string) error {
	if len(address) > maxRaw+1 {
		s.t.Errorf("an address of %d bytes", len(address))
	}
	return s.fileSink.add(address)
}

func wantStored(t *testing.T, scope Scope, address string) {
	t.Helper()
	if len(address) > maxAddress || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		t.Errorf("%q is not a stored form", address)
	}
	if again, ok := scope.Clean(address); again != address || !ok {
		t.Errorf("%q is cleaned to %q, %v", address, again, ok)
	}
}

// Clean is idempotent, and its result belongs to the property and is in the stored form.
func FuzzClean(f *testing.F) {
	for _, address := range []string{"https://example.com", "HTTP://WWW.example.com:80/ä b#c", "https://a@example.com/", "https://[::1]:8/",
		"https://BÜCHER.example.com/%zz?q", "https://example.com/shop/../x", "https://\u212A.example.com/"} {
		f.Add("sc-domain:example.com", address)
		f.Add("https://example.com/shop/", address)
		f.Add(address, address)
	}
	f.Fuzz(func(t *testing.T, site, address string) {
		scope, err := ParseScope(site)
		if err != nil {
			return
		}
		cleaned, ok := scope.Clean(address)
		if !ok {
			return
		}
		wantStored(t, scope, cleaned)
		a, err := parseAddress(cleaned)
		if err != nil || !scope.coversHost(a.host) || !strings.HasPrefix(cleaned, scope.prefix) {
			t.Errorf("%s: %q is not of the property", site, cleaned)
		}
	})
}
