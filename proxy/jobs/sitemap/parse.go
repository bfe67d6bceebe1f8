package sitemap

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

const (
	maxEntries = 50_000    // of one file (sitemap protocol)
	maxToken   = 256 << 10 // bytes of one XML token
	maxNesting = 32        // of elements; extensions need 5
)

// Why a file is not read as a sitemap.
const (
	errEmpty    = problem("it is empty")
	errUnknown  = problem("it is neither an XML sitemap nor a list of addresses")
	errHTML     = problem("it is an HTML page, not a sitemap")
	errFeed     = problem("it is a feed, not a sitemap")
	errEntities = problem("it declares entities of its own, which are not read")
	errNesting  = problem("its elements are nested too deeply, and the rest is not read")
	errRecoded  = problem("it names its character set more than once")
	errToken    = problem("it has an element, a comment or a text that is too long")
)

// sink receives the parsed entries. If either method returns an error, parsing ends and returns it.
type sink interface {
	begin(index bool) error   // called once, before add; index: the entries are sitemaps, not pages
	add(address string) error // an entry, as written in the file
}

// parse reads one decoded file into the sink, to its end or to the first error. Entries before an error count.
func parse(text *bufio.Reader, into sink) error {
	first, err := firstByte(text)
	switch {
	case errors.Is(err, io.EOF):
		return errEmpty
	case err != nil:
		return err
	case first == '<':
		return parseXML(text, into)
	}
	start, err := peek(text, len("https://"))
	if err != nil {
		return err
	}
	if s := strings.ToLower(string(start)); !strings.HasPrefix(s, "http://") && s != "https://" {
		return errUnknown
	}
	return parseLines(text, into)
}

// firstByte skips leading white space, which some servers send, and peeks at the next byte.
func firstByte(text *bufio.Reader) (byte, error) {
	for {
		c, err := text.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, text.UnreadByte()
		}
	}
}

// parseLines reads plain text with one URL per line.
func parseLines(text *bufio.Reader, into sink) error {
	if err := into.begin(false); err != nil {
		return err
	}
	for {
		line, err := text.ReadSlice('\n')
		address := string(bytes.TrimSpace(line))
		if errors.Is(err, bufio.ErrBufferFull) { // too long for a URL: add an invalid entry
			address = "?"
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = text.ReadSlice('\n')
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if address != "" {
			if err := into.add(address); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// parseXML reads a urlset or a sitemapindex. A read or syntax error after the first tag is a *cutError.
func parseXML(text *bufio.Reader, into sink) error {
	source := &tokenReader{source: text}
	decoder := xml.NewDecoder(source)
	decoder.CharsetReader = source.recode
	walk := xmlWalk{into: into}
	for {
		source.length = 0
		token, err := decoder.Token()
		if err != nil {
			if source.err == nil { // a syntax error, not a read error
				err = syntaxProblem(err, walk.entry != "")
			}
			if walk.entry == "" {
				return err
			}
			line, _ := decoder.InputPos()
			return &cutError{line: line, err: err}
		}
		if err := walk.take(token); err != nil || walk.ended() {
			return err
		}
	}
}

// syntaxProblem replaces the decoder's error, which may quote an unlimited part of the file.
func syntaxProblem(err error, begun bool) error {
	known, ok := errors.AsType[problem](err)
	switch {
	case ok:
		return known
	case begun:
		return problem("its XML is broken")
	}
	return errUnknown
}

// cutError is an XML file that was cut off or became invalid at a line.
type cutError struct {
	line int
	err  error
}

func (e *cutError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *cutError) Unwrap() error { return e.err }

// xmlWalk tracks the position in a sitemap: entries are at depth 2 and their loc at depth 3. Extensions also have elements named loc,
// but in other namespaces or deeper.
type xmlWalk struct {
	into    sink
	root    xml.Name
	entry   string // the name of an entry, url or sitemap; "" before the first tag
	depth   int
	inEntry bool
	inLoc   bool
	loc     []byte // the URL so far, at most maxRaw+1 bytes
}

func (w *xmlWalk) take(token xml.Token) error {
	switch token := token.(type) {
	case xml.StartElement:
		return w.start(token.Name)
	case xml.EndElement:
		return w.end()
	case xml.CharData:
		if w.inLoc && w.depth == 3 {
			w.loc = append(w.loc, token[:min(len(token), maxRaw+1-len(w.loc))]...)
		}
	case xml.Directive:
		if bytes.Contains(bytes.ToUpper(token), []byte("<!ENTITY")) {
			return errEntities
		}
	}
	return nil
}

func (w *xmlWalk) ended() bool { return w.depth == 0 && w.entry != "" }

func (w *xmlWalk) start(name xml.Name) error {
	w.depth++
	switch {
	case w.depth > maxNesting:
		return errNesting
	case w.depth == 1:
		return w.begin(name)
	case w.depth == 2:
		w.inEntry = name.Local == w.entry && name.Space == w.root.Space
	case w.depth == 3 && w.inEntry && name.Local == "loc" && name.Space == w.root.Space:
		w.inLoc, w.loc = true, w.loc[:0]
	}
	return nil
}

func (w *xmlWalk) begin(name xml.Name) error {
	w.root = name
	switch strings.ToLower(name.Local) {
	case "urlset":
		w.entry = "url"
		return w.into.begin(false)
	case "sitemapindex":
		w.entry = "sitemap"
		return w.into.begin(true)
	case "html":
		return errHTML
	case "rss", "feed", "rdf":
		return errFeed
	}
	return errUnknown
}

func (w *xmlWalk) end() error {
	w.depth--
	if w.depth != 2 || !w.inLoc {
		return nil
	}
	w.inLoc = false
	return w.into.add(string(bytes.TrimSpace(w.loc)))
}

// tokenReader bounds the bytes of one token, which the decoder keeps in memory. It implements io.ByteReader, so the decoder adds
// no buffer of its own.
type tokenReader struct {
	source  *bufio.Reader
	length  int   // of the current token
	err     error // of the source, other than io.EOF
	recoded bool
}

func (t *tokenReader) ReadByte() (byte, error) {
	if t.length++; t.length > maxToken {
		return 0, errToken
	}
	c, err := t.source.ReadByte()
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return c, err
}

func (t *tokenReader) Read(p []byte) (int, error) {
	return t.source.Read(p)
}

// recode switches to the character set of an XML declaration. A declaration of UTF-16 is ignored: since it was readable, the text
// is no longer UTF-16 (decode has converted it), or never was. The decoder accepts declarations anywhere, any number of times;
// only the first is allowed, because each one stacks another reader.
func (t *tokenReader) recode(label string, _ io.Reader) (io.Reader, error) {
	if t.recoded {
		return nil, errRecoded
	}
	t.recoded = true
	charset, err := htmlindex.Get(label)
	if err != nil {
		return nil, problem(fmt.Sprintf("its character set %.40q is not known", label))
	}
	if name, err := htmlindex.Name(charset); err != nil || !strings.HasPrefix(name, "utf-16") {
		t.source = bufio.NewReader(charset.NewDecoder().Reader(t.source))
	}
	return t, nil
}
