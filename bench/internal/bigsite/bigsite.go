// Package bigsite answers search analytics queries for big sites with bodies that are made once, because the simulator would
// take seconds to compute each.
package bigsite

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// A Site answers every query with one of two bodies, with as many rows as the query asks for. The query decides which one, so
// comparisons of two ranges find differences. It is safe for concurrent use.
type Site struct {
	rows   int
	key    func(*bytes.Buffer, *rand.Rand, int)
	mu     sync.Mutex // guards bodies
	bodies map[form]body
}

// A form of an answer is made on first use.
type form struct {
	rows int
	seed uint64
}

// A body is an answer as it is sent.
type body struct{ plain, zipped []byte }

// Long returns a site with this many rows of long URLs. 25,000 of them, the most that Search Console sends, come to 10 MB.
func Long(rows int) *Site {
	return newSite(rows, func(b *bytes.Buffer, random *rand.Rand, row int) {
		const segments, categories = 14, 5000
		fmt.Fprintf(b, "https://www.big.example/catalogue/season-%d/department-%d/", row%7, row%311)
		for range segments {
			fmt.Fprintf(b, "category-%d-of-collection/", random.IntN(categories))
		}
	})
}

// Random returns a site whose rows hardly compress, of about 240 bytes each.
func Random(rows int) *Site {
	return newSite(rows, func(b *bytes.Buffer, random *rand.Rand, row int) {
		const segments = 10
		fmt.Fprintf(b, "https://www.random.example/%d/", row)
		for range segments {
			b.WriteString(strconv.FormatUint(random.Uint64(), 36))
		}
	})
}

func newSite(rows int, key func(*bytes.Buffer, *rand.Rand, int)) *Site {
	return &Site{rows: rows, key: key, bodies: map[form]body{}}
}

// body returns an answer with at most this many rows.
func (s *Site) body(rows int, seed uint64) body {
	f := form{min(rows, s.rows), seed}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.bodies[f]
	if !ok {
		b = newBody(f.rows, seed, s.key)
		s.bodies[f] = b
	}
	return b
}

// newBody makes an answer in the order of clicks.
func newBody(rows int, seed uint64, key func(*bytes.Buffer, *rand.Rand, int)) body {
	keys, clicks := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(2, seed))
	var text bytes.Buffer
	text.WriteString(`{"rows":[`)
	for i := range rows {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(`{"keys":["`)
		key(&text, keys, i)
		n := 2*(rows-i) + clicks.IntN(2)
		const perClick, lastPosition = 9, 40
		fmt.Fprintf(&text, `"],"clicks":%d,"impressions":%d,"ctr":%.4f,"position":%.3f}`, n, n*perClick, 1.0/perClick, 1+clicks.Float64()*lastPosition)
	}
	text.WriteString(`],"responseAggregationType":"byPage"}`)
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestSpeed) // the level is valid
	_, _ = z.Write(text.Bytes())                         // memory takes everything
	_ = z.Close()
	return body{text.Bytes(), zipped.Bytes()}
}

// Size returns the bytes of the longest answer before its compression.
func (s *Site) Size() int { return len(s.body(s.rows, 0).plain) }

// ServeHTTP implements http.Handler, for queries without an authorization.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const most, defaultRows = 64 << 10, 1000
	text, err := io.ReadAll(io.LimitReader(r.Body, most))
	query := struct{ RowLimit int }{defaultRows}
	if err != nil || json.Unmarshal(text, &query) != nil {
		http.Error(w, "the query is not JSON", http.StatusBadRequest)
		return
	}
	h := fnv.New32a()
	_, _ = h.Write(text) // never fails
	b := s.body(query.RowLimit, uint64(h.Sum32()%2))
	text = b.plain
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		text = b.zipped
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
}

// Domain returns the domain that a search analytics query is about; empty for any other request.
func Domain(r *http.Request) string {
	path, isQuery := strings.CutSuffix(r.URL.EscapedPath(), "/searchAnalytics/query")
	_, domain, _ := strings.Cut(path, "/sites/sc-domain%3A")
	if !isQuery {
		return ""
	}
	return domain
}
