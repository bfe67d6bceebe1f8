package sitemap

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func TestIndexOfGzippedFilesIsFollowed(t *testing.T) {
	w := web{"/a.xml.gz": text(zipped(urlset("https://www.example.com/a", "https://www.example.com/both"))),
		"/b.txt": text("https://www.example.com/both\nhttps://www.example.com/b")}
	base := w.start(t)
	w["/index.xml.gz"] = text(zipped(index(base+"/a.xml.gz", " "+base+"/b.txt\n", base+"/none")))
	found := read(t, Config{AllowLoopback: true}, 0, base+"/index.xml.gz")
	want := Found{Files: []File{
		{Path: base + "/index.xml.gz"},
		{Path: base + "/a.xml.gz", Above: []int32{0}, URLs: 2},
		{Path: base + "/b.txt", Above: []int32{0}, URLs: 2},
		{Path: base + "/none", Above: []int32{0}, Problem: "it answers 404"},
	}, URLs: []URL{
		{"https://www.example.com/a", []int32{0, 1}},
		{"https://www.example.com/both", []int32{0, 1, 2}},
		{"https://www.example.com/b", []int32{0, 2}},
	}}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("found %+v\nwant %+v", found, want)
	}
}

func TestCyclicIndexesAreReadOnce(t *testing.T) {
	asked := map[string]int{}
	w := web{}
	base := w.start(t)
	serve := func(path, content string) {
		w[path] = func(w http.ResponseWriter, _ *http.Request) {
			asked[path]++
			_, _ = w.Write([]byte(content))
		}
	}
	serve("/a", index(base+"/a", base+"/b", base+"/b#again", base+"/leaf"))
	serve("/b", index(base+"/a", base+"/leaf", strings.ToUpper(base[:4])+base[4:]+"/leaf"))
	serve("/leaf", urlset("https://www.example.com/a"))
	found := read(t, Config{AllowLoopback: true}, 0, base+"/leaf", base+"/a", base+"/a")
	got := fmt.Sprint(found.Files[0].Above, found.Files[1].Above, found.Files[2].Above, found.URLs, asked)
	if want := "[1 2] [2] [1] [{https://www.example.com/a [0 1 2]}] map[/a:1 /b:1 /leaf:1]"; got != want || len(found.Files) != 3 {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The same pages in twenty files below twenty indexes: equal sets of files share one slice, which is bounded.
func TestURLsInManyFilesShareOneSet(t *testing.T) {
	w := web{}
	base := w.start(t)
	var leaves, indexes []string
	for i := range 20 {
		leaves = append(leaves, fmt.Sprintf("%s/leaf/%d", base, i))
		indexes = append(indexes, fmt.Sprintf("%s/index/%d", base, i))
	}
	for i := range 20 {
		w[fmt.Sprintf("/leaf/%d", i)] = text(urlset(pages(100)...))
		w[fmt.Sprintf("/index/%d", i)] = text(index(leaves...))
	}
	found := read(t, Config{AllowLoopback: true}, 0, indexes...)
	if len(found.Files) != 40 || len(found.Files[39].Above) != 20 || len(found.URLs) != 100 {
		t.Fatalf("%d files, %d addresses", len(found.Files), len(found.URLs))
	}
	for _, u := range found.URLs {
		if len(u.Files) != maxFilesOfURL || !slices.IsSorted(u.Files) || &u.Files[0] != &found.URLs[0].Files[0] {
			t.Fatalf("%s is in %v", u.Address, u.Files)
		}
	}
}

// Each of ten thousand indexes names the next one.
func TestNestedIndexesAreFollowedToTheLimit(t *testing.T) {
	var asked atomic.Int32
	var base string
	w := web{"/good": text(goodPage)}
	for i := range 10_000 {
		w[fmt.Sprintf("/%d", i)] = func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = w.Write([]byte(index(fmt.Sprintf("%s/%d", base, i+1), base+"/good")))
		}
	}
	base = w.start(t)
	found := read(t, Config{AllowLoopback: true}, 0, base+"/0")
	if n := asked.Load(); n != 4 {
		t.Errorf("%d indexes were fetched", n)
	}
	last := found.Files[len(found.Files)-1]
	if len(found.Files) != 5 || !slices.Equal(last.Above, []int32{0, 1, 3}) {
		t.Fatalf("files %+v", found.Files)
	}
	wantProblem(t, last, "it is an index file below 3 others, and not followed")
	wantStrings(t, addressesOf(found), goodPage)

	found = read(t, Config{AllowLoopback: true, Limits: Limits{Depth: 1}}, 0, base+"/0")
	wantProblem(t, found.Files[1], "it is an index file below 1 others, and not followed")
	wantStrings(t, addressesOf(found), goodPage) // a file below the last index is read
}

// A file below two indexes of one index is below three.
func TestFileIsBelowEachIndexOnce(t *testing.T) {
	w := web{"/good": text(goodPage)}
	base := w.start(t)
	w["/top"] = text(index(base+"/a", base+"/b"))
	w["/a"], w["/b"] = text(index(base+"/good")), text(index(base+"/good"))
	found := read(t, Config{AllowLoopback: true}, 0, base+"/top")
	if last := found.Files[len(found.Files)-1]; len(found.Files) != 4 || !slices.Equal(last.Above, []int32{0, 1, 2}) {
		t.Errorf("files %+v", found.Files)
	}
}

func TestIndexOfManyFilesIsFollowedToTheLimit(t *testing.T) {
	var asked atomic.Int32
	w := web{"/good": text(goodPage)}
	base := w.start(t)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%d", base, i)
		w[fmt.Sprintf("/%d", i)] = func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = fmt.Fprintf(w, "https://www.example.com/%d\n", i)
		}
	}
	w["/index"] = text(index(names...))
	found := read(t, Config{AllowLoopback: true}, 0, base+"/index", base+"/good")
	if n := asked.Load(); n != 498 || len(found.Files) != 500 || len(found.URLs) != 499 {
		t.Errorf("%d files fetched, %d files, %d URLs", n, len(found.Files), len(found.URLs))
	}
	wantProblem(t, found.Files[0], "sitemaps it names that are not read: 9502, because at most 500 are read for a property")
	wantProblem(t, found.Files[1], "")
}

func TestEveryPathHasAFile(t *testing.T) {
	base := web{"/good": text(goodPage)}.start(t)
	found := read(t, Config{AllowLoopback: true, Limits: Limits{Files: 1}}, 0, base+"/good", base+"/2", "file:///x", "file:///y", "file:///x")
	var got []string
	for _, f := range found.Files {
		got = append(got, f.Problem)
	}
	wantStrings(t, got, "", "not read: at most 1 sitemaps are read for a property", "its address is neither http nor https",
		"its address is neither http nor https")
}

func TestReadStopsAtMaxURLs(t *testing.T) {
	base := web{"/a": text(urlset(pages(3)...)), "/b": text(urlset(pages(5)...)), "/c": text(goodPage)}.start(t)
	config := Config{AllowLoopback: true}
	found := read(t, config, 4, base+"/a", base+"/b", base+"/c")
	if !found.Full || len(found.URLs) != 4 || found.Files[1].URLs != 4 {
		t.Errorf("found %+v", found)
	}
	wantProblem(t, found.Files[0], "")
	wantProblem(t, found.Files[1], "there are more than 4 addresses, and the rest is not read")
	wantProblem(t, found.Files[2], "not read: there were more than 4 addresses before it")
	found = read(t, config, 3, base+"/a", base+"/a?again")
	if found.Full || len(found.URLs) != 3 || found.Files[1].URLs != 3 {
		t.Errorf("exactly as many as are wanted: %+v", found)
	}
}

// Addresses may be long, and several properties are read at a time.
func TestReadStopsAtAddressBytes(t *testing.T) {
	long := strings.Repeat("x", maxAddress-len(goodPage)-10)
	base := web{"/long": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 9000 {
			_, _ = fmt.Fprintf(w, "%s/%d/%s\n", goodPage, i, long) // the reader leaves
		}
	}, "/good": text(goodPage)}.start(t)
	found := read(t, Config{AllowLoopback: true}, maxEntries, base+"/long", base+"/good")
	size := 0
	for _, u := range found.URLs {
		size += len(u.Address)
	}
	const most = 16 << 20
	if !found.Full || size > most || size < most-maxAddress {
		t.Errorf("%d addresses of %d bytes", len(found.URLs), size)
	}
	wantProblem(t, found.Files[0], "there are addresses of more than 16 MiB, and the rest is not read")
	wantProblem(t, found.Files[1], "not read: there were addresses of more than 16 MiB before it")
}

// There is one connection at a time, and none stays open.
func TestFilesAreReadSequentially(t *testing.T) {
	var now, most atomic.Int32
	w := web{}
	var paths []string
	base := w.start(t)
	for i := range 20 {
		path := fmt.Sprintf("/%d", i)
		paths = append(paths, base+path)
		w[path] = func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if !r.Close {
				t.Error("the request keeps its connection alive")
			}
			_, _ = w.Write([]byte(goodPage))
		}
	}
	found := read(t, Config{AllowLoopback: true}, 0, paths...)
	if len(found.URLs) != 1 || len(found.URLs[0].Files) != 20 || most.Load() != 1 {
		t.Errorf("found %+v, %d at once", found, most.Load())
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	if _, err := New(Config{Limits: Limits{Files: -1}}); err == nil {
		t.Error("a negative limit was taken")
	}
	if _, err := New(Config{Transport: http.DefaultTransport, Resolver: nameServer(t, nil)}); err == nil {
		t.Error("a resolver next to a transport was taken")
	}
}
