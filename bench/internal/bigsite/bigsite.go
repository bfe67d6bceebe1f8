// Package bigsite answers search analytics queries of big sites with bodies that are made once, because the simulator would
// take seconds to compute each.
package bigsite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// A Site answers every query with one of two bodies. The query decides which, so that comparisons of two ranges find
// differences. It is safe for concurrent use.
type Site struct{ bodies [2]body }

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
	s := &Site{}
	for i := range s.bodies {
		s.bodies[i] = newBody(rows, uint64(i), key)
	}
	return s
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

// Size returns the bytes of a body before its compression.
func (s *Site) Size() int { return len(s.bodies[0].plain) }

// ServeHTTP implements http.Handler, for queries without an authorization.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const most = 64 << 10
	query, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		return // the client has gone
	}
	h := fnv.New32a()
	_, _ = h.Write(query) // never fails
	b := s.bodies[h.Sum32()%2]
	text := b.plain
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
