package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"sara/bench/internal/bigsite"
)

// Properties whose domains begin with these words are special to the upstream.
const (
	bigSite     = "big"     // page rows of 10 MB
	floodSite   = "flood"   // rows that hardly compress
	failingSite = "failing" // 500 to everything
)

// An upstream stands in front of the simulator, as another Search Console with sites that the simulator would compute too
// slowly, and with faults of one site or of all. Bodies are made once and sent unchanged.
type upstream struct {
	simulator  http.Handler
	big, flood http.Handler
	outage     atomic.Pointer[outage]
}

// An outage is a fault of the whole upstream.
type outage struct {
	status int           // of every answer; 0 for the usual one
	delay  time.Duration // of every answer
	drop   bool          // connections close without an answer
	over   chan struct{} // closed at the end of the fault; then delayed answers are dropped
}

func newUpstream(s size) *upstream {
	return &upstream{big: bigsite.Long(s.bigRows), flood: bigsite.Random(s.floodRows)}
}

// before puts it in front of the simulator.
func (u *upstream) before(simulator http.Handler) http.Handler {
	u.simulator = simulator
	return u
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/webmasters/") {
		u.simulator.ServeHTTP(w, r)
		return
	}
	if fault := u.outage.Load(); fault != nil && !fault.passes(w, r) {
		return
	}
	site := bigsite.Domain(r)
	switch {
	case strings.HasPrefix(site, failingSite):
		fail(w, http.StatusInternalServerError)
	case strings.HasPrefix(site, bigSite):
		u.big.ServeHTTP(w, r)
	case strings.HasPrefix(site, floodSite):
		u.flood.ServeHTTP(w, r)
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

// passes applies the fault, and reports whether the request is answered anyway.
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
