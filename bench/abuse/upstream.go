package main

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
	"sync/atomic"
	"time"
)

// Properties whose domains begin with these words are special to the upstream.
const (
	bigSite     = "big"     // page rows of 10 MB
	floodSite   = "flood"   // rows that hardly compress
	failingSite = "failing" // 500 to everything
)

// An upstream stands in front of the simulator, as one more Search Console with sites that the simulator would compute too
// slowly, and with faults of one site or of all. Bodies are made once and sent as they are.
type upstream struct {
	simulator  http.Handler
	big, flood [2]body // chosen by the range of days, so that a comparison finds differences
	outage     atomic.Pointer[outage]
}

// An outage is a fault of the whole upstream.
type outage struct {
	status int           // of every answer; 0 for the usual one
	delay  time.Duration // of every answer
	drop   bool          // connections close without an answer
	over   chan struct{} // closed at the end of the fault; then delayed answers are dropped
}

// A body is an answer as it is sent.
type body struct{ plain, zipped []byte }

func newUpstream(s size) *upstream {
	u := &upstream{}
	for i := range u.big {
		u.big[i] = newBody(s.bigRows, func(b *bytes.Buffer, random *rand.Rand, row int) { // about 400 bytes
			fmt.Fprintf(b, "https://www.big.example/catalogue/season-%d/department-%d/", row%7, row%311)
			for range 14 {
				fmt.Fprintf(b, "category-%d-of-collection/", random.IntN(5000))
			}
		})
		u.flood[i] = newBody(s.floodRows, func(b *bytes.Buffer, random *rand.Rand, row int) {
			fmt.Fprintf(b, "https://www.flood.example/%d/", row)
			for range 10 {
				b.WriteString(strconv.FormatUint(random.Uint64(), 36))
			}
		})
	}
	return u
}

// before puts it in front of the simulator.
func (u *upstream) before(simulator http.Handler) http.Handler {
	u.simulator = simulator
	return u
}

// newBody makes an answer with this many rows, in the order of clicks.
func newBody(rows int, key func(*bytes.Buffer, *rand.Rand, int)) body {
	random := rand.New(rand.NewPCG(1, uint64(rows)))
	var text bytes.Buffer
	text.WriteString(`{"rows":[`)
	for i := range rows {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(`{"keys":["`)
		key(&text, random, i)
		clicks := 2*(rows-i) + random.IntN(2)
		fmt.Fprintf(&text, `"],"clicks":%d,"impressions":%d,"ctr":%.4f,"position":%.3f}`, clicks, clicks*9, 1/9.0, 1+random.Float64()*40)
	}
	text.WriteString(`],"responseAggregationType":"byPage"}`)
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestSpeed) // the level is valid
	_, _ = z.Write(text.Bytes())                         // memory takes everything
	_ = z.Close()
	return body{text.Bytes(), zipped.Bytes()}
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, "/webmasters/") {
		u.simulator.ServeHTTP(w, r)
		return
	}
	if fault := u.outage.Load(); fault != nil && !fault.passes(w, r) {
		return
	}
	_, site, _ := strings.Cut(path, "sc-domain%3A")
	if !strings.HasSuffix(path, "/searchAnalytics/query") {
		site = ""
	}
	switch {
	case strings.HasPrefix(site, failingSite):
		fail(w, http.StatusInternalServerError)
	case strings.HasPrefix(site, bigSite):
		send(w, r, &u.big)
	case strings.HasPrefix(site, floodSite):
		send(w, r, &u.flood)
	default:
		u.simulator.ServeHTTP(w, r)
	}
}

// begin begins a fault of all sites.
func (u *upstream) begin(o outage) {
	o.over = make(chan struct{})
	u.outage.Store(&o)
}

func (u *upstream) end() {
	if o := u.outage.Swap(nil); o != nil {
		close(o.over)
	}
}

// passes applies the fault, and reports whether the request is answered all the same.
func (o *outage) passes(w http.ResponseWriter, r *http.Request) bool {
	if o.delay > 0 {
		// The server notices that the client has gone only once the body has been read.
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		select {
		case <-time.After(o.delay):
		case <-o.over:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return false
		}
	}
	switch {
	case o.drop:
		panic(http.ErrAbortHandler)
	case o.status != 0:
		fail(w, o.status)
		return false
	}
	return true
}

func fail(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":"Internal error encountered.","errors":[{"message":"Internal error encountered.",`+
		`"domain":"global","reason":"backendError"}]}}`, status)
}

// send sends one of two bodies, by the query.
func send(w http.ResponseWriter, r *http.Request, bodies *[2]body) {
	const most = 64 << 10
	query, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		return // the client has gone
	}
	h := fnv.New32a()
	_, _ = h.Write(query) // never fails
	b, text := &bodies[h.Sum32()%2], []byte(nil)
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if text = b.plain; strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		text = b.zipped
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
}
