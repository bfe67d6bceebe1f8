package sitemap

import (
	"fmt"
	"net/url"
	"slices"
)

// Found is what a Read found.
type Found struct {
	Files []File
	URLs  []URL // distinct, in the order in which they were first met
	Full  bool  // there are more than maxURLs addresses, and the rest was not read
}

// File is one sitemap, read or not. The distinct ones of the paths come first, then those that index files name.
type File struct {
	Path    string  // of the paths as it was given, of an index file in the stored form if it has one
	Above   []int32 // the index files that name it, and those that name these: indexes into Found.Files, ascending
	URLs    int     // distinct addresses of the property that it lists itself; an index file lists none
	Foreign int     // entries for pages that are no address or not one of the property; they are left out
	Problem string  // why it was not read, or not wholly, for people; "" if it was
}

// URL is the address of one page.
type URL struct {
	Address string // in its stored form, see Scope.Clean
	// Files are the files that list it and all above those: indexes into Found.Files, ascending and distinct. URLs share
	// these slices: they must not be changed. There are 32 at most, the first ones.
	Files []int32
}

// Why the reading of a file ends early, though nothing is wrong with its syntax.
const errMany = problem("it lists more than 50,000 entries, and the rest is not read")

// file is a File while it is being read.
type file struct {
	File
	index   int32
	address string  // that is asked
	depth   int     // index files above it, on the shortest way
	parents []int32 // the index files that name it, ascending
	invalid int     // entries of an index file that are no address
	unread  int     // entries of an index file for whose files there was no room
}

// gathering is what one Read has found so far.
type gathering struct {
	scope     Scope
	limits    Limits
	maxURLs   int
	full      bool
	files     []*file
	byAddress map[string]*file
	urls      []URL          // their Files are those that list them themselves
	byURL     map[string]int // indexes into urls
}

func newGathering(r *Reader, scope Scope, maxURLs int) *gathering {
	return &gathering{scope: scope, limits: r.limits, maxURLs: maxURLs, byAddress: map[string]*file{}, byURL: map[string]int{}}
}

// given adds a file of the paths.
func (g *gathering) given(path string) {
	address, err := sitemapAddress(path)
	if err != nil {
		address = path
	}
	if g.byAddress[address] == nil {
		g.newFile(path, address, 0, err)
	}
}

// named adds a file that an index file names, or notes that it is named once more.
func (g *gathering) named(by *file, path string) {
	address, err := sitemapAddress(path)
	if err != nil {
		if address = shown(path); address == "" {
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

// shown is the form in which an address is shown that will not be asked: without a password, in printable ASCII; "" if it
// cannot be made out.
func shown(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme == "" {
		return ""
	}
	if path, ok := escape(u.Redacted()); ok && len(path) <= maxAddress {
		return path
	}
	return ""
}

func (g *gathering) newFile(path, address string, depth int, err error) *file {
	f := &file{File: File{Path: path}, index: int32(len(g.files)), address: address, depth: depth} // #nosec G115 -- few
	if err != nil {
		f.Problem = err.Error()
	}
	g.files = append(g.files, f)
	g.byAddress[address] = f
	return f
}

// sitemapAddress is the form in which a sitemap is asked, and by which two names of one file are known to be the same.
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

// addURL adds an address that a file lists.
func (g *gathering) addURL(f *file, address string, own []int32) error {
	address, ok := g.scope.Clean(address)
	if !ok {
		f.Foreign++
		return nil
	}
	i, known := g.byURL[address]
	if !known {
		if g.maxURLs > 0 && len(g.urls) == g.maxURLs {
			g.full = true
			return problem(fmt.Sprintf("there are more than %d addresses, and the rest is not read", g.maxURLs))
		}
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

// found ends the gathering: the files above are added to each file and each URL.
func (g *gathering) found() Found {
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
	return Found{Files: files, URLs: g.urls, Full: g.full}
}

// above returns the files from which a file is reached, without itself, also if indexes name each other in a circle.
func (g *gathering) above(f *file) []int32 {
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

// fileSink takes what is parsed from one file.
type fileSink struct {
	*gathering
	file    *file
	index   bool
	entries int
	own     []int32 // the file alone: most URLs are listed by one file, and share it
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
		s.named(s.file, address)
		return nil
	}
	return s.addURL(s.file, address, s.own)
}
