package sitemap

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/dustin/go-humanize"
)

// Found is the result of a Read.
type Found struct {
	Files []File
	URLs  []URL // distinct, in the order of their first occurrence
	Full  bool  // there is more than maxURLs, Limits.AddressBytes or Limits.TotalBytes allow, and the rest was not read
}

// File is one sitemap, read or not. The distinct files of the paths come first, then those that index files name.
type File struct {
	Path    string  // as given in the paths; if an index file names it, in the stored form, if it has one
	Above   []int32 // the index files that name it, directly or indirectly: indexes into Found.Files, ascending
	URLs    int     // distinct URLs of the property that it lists itself; 0 for an index file
	Foreign int     // entries that are not URLs of the property; they are dropped
	Problem string  // why it was not read, or only in part, for people; "" if it was read
}

// URL is one page.
type URL struct {
	Address string // in its stored form, see Scope.Clean
	// Files are the files that list it and all index files above those: indexes into Found.Files, ascending and distinct, at
	// most the first 32. URLs share these slices, so they must not be changed.
	Files []int32
}

const errMany = problem("it lists more than 50,000 entries, and the rest is not read")

// file is a File while it is being read.
type file struct {
	File
	index   int32
	address string  // to fetch
	depth   int     // index files above it, on the shortest path
	parents []int32 // the index files that name it, ascending
	invalid int     // entries of an index file that are not URLs
	unread  int     // entries of an index file beyond Limits.Files
}

// findings is what one Read has found so far.
type findings struct {
	scope     Scope
	limits    Limits
	maxURLs   int
	bytes     int64  // of the addresses of urls
	read      int64  // the bytes of all files, at each layer of decoding
	full      string // the limit that was exceeded, in words; empty: none
	files     []*file
	byAddress map[string]*file
	urls      []URL          // with the Files that list them directly
	byURL     map[string]int // indexes into urls
}

func newFindings(r *Reader, scope Scope, maxURLs int) *findings {
	return &findings{scope: scope, limits: r.limits, maxURLs: maxURLs, byAddress: map[string]*file{}, byURL: map[string]int{}}
}

// addPath adds a file of the paths.
func (g *findings) addPath(path string) {
	address, err := sitemapAddress(path)
	if err != nil {
		address = path
	}
	if g.byAddress[address] == nil {
		g.newFile(path, address, 0, err)
	}
}

// addNamed adds a file that an index file names; for a known file it adds the index file to its parents.
func (g *findings) addNamed(by *file, path string) {
	address, err := sitemapAddress(path)
	if err != nil {
		if address = printable(path); address == "" {
			by.invalid++
			return
		}
	}
	f := g.byAddress[address]
	if f == nil {
		if len(g.files) >= g.limits.Files {
			by.unread++
			return
		}
		f = g.newFile(address, address, by.depth+1, err)
	}
	if f != by && (len(f.parents) == 0 || f.parents[len(f.parents)-1] != by.index) {
		f.parents = append(f.parents, by.index)
	}
}

// printable returns the form in which a URL that will not be fetched is shown: without a password, in printable ASCII; "" if it
// cannot be parsed.
func printable(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme == "" {
		return ""
	}
	if path, ok := escape(u.Redacted()); ok && len(path) <= maxAddress {
		return path
	}
	return ""
}

func (g *findings) newFile(path, address string, depth int, err error) *file {
	f := &file{File: File{Path: path}, index: int32(len(g.files)), address: address, depth: depth} // #nosec G115 -- few
	if err != nil {
		f.Problem = err.Error()
	}
	g.files = append(g.files, f)
	g.byAddress[address] = f
	return f
}

// sitemapAddress returns the canonical URL of a sitemap, which is used to fetch it and to recognize duplicates.
func sitemapAddress(path string) (string, error) {
	a, err := parseAddress(path)
	if err != nil {
		return "", err
	}
	if s := a.String(); len(s) <= maxAddress {
		return s, nil
	}
	return "", errInvalid
}

// addURL adds a URL that a file lists.
func (g *findings) addURL(f *file, address string, own []int32) error {
	address, ok := g.scope.Clean(address)
	if !ok {
		f.Foreign++
		return nil
	}
	i, known := g.byURL[address]
	if !known {
		if g.full = g.excess(address); g.full != "" {
			return problem("there are " + g.full + ", and the rest is not read")
		}
		g.bytes += int64(len(address))
		g.byURL[address] = len(g.urls)
		g.urls = append(g.urls, URL{Address: address, Files: own})
	} else {
		files := g.urls[i].Files
		if files[len(files)-1] == f.index {
			return nil
		}
		if len(files) < maxFilesOfURL {
			g.urls[i].Files = append(files, f.index)
		}
	}
	f.URLs++
	return nil
}

// excess names, in words, the limit that one more address would exceed; empty: none.
func (g *findings) excess(address string) string {
	switch {
	case g.maxURLs > 0 && len(g.urls) == g.maxURLs:
		return fmt.Sprintf("more than %d addresses", g.maxURLs)
	case g.bytes+int64(len(address)) > g.limits.AddressBytes:
		return "addresses of more than " + humanize.IBytes(uint64(g.limits.AddressBytes)) // #nosec G115 -- a limit is not negative
	}
	return ""
}

// found returns the result: it adds the index files above to each file and each URL.
func (g *findings) found() Found {
	files := make([]File, len(g.files))
	sets := newFileSets(len(g.files))
	for i, f := range g.files {
		f.Above = g.above(f)
		files[i] = f.File
		sets.append(f.index, f.Above)
	}
	for i, u := range g.urls {
		g.urls[i].Files = sets.union(u.Files)
	}
	return Found{Files: files, URLs: g.urls, Full: g.full != ""}
}

// above returns the index files from which a file can be reached, excluding itself. Index files may form a cycle.
func (g *findings) above(f *file) []int32 {
	seen := make([]bool, len(g.files))
	seen[f.index] = true
	above := slices.Clone(f.parents)
	for _, p := range above {
		seen[p] = true
	}
	for i := 0; i < len(above); i++ {
		for _, p := range g.files[above[i]].parents {
			if !seen[p] {
				seen[p] = true
				above = append(above, p)
			}
		}
	}
	slices.Sort(above)
	return above
}

// fileSink is the sink for one file.
type fileSink struct {
	*findings
	file    *file
	index   bool
	entries int
	own     []int32 // the file alone; shared by the URLs that only this file lists, usually most
}

func (s *fileSink) begin(index bool) error {
	s.index = index
	s.own = []int32{s.file.index}[:1:1]
	if index && s.file.depth >= s.limits.Depth {
		return problem(fmt.Sprintf("it is an index file below %d others, and not followed", s.file.depth))
	}
	return nil
}

func (s *fileSink) add(address string) error {
	if s.entries++; s.entries > maxEntries {
		return errMany
	}
	if s.index {
		s.addNamed(s.file, address)
		return nil
	}
	return s.addURL(s.file, address, s.own)
}
