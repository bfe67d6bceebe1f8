package gscsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

type callKind int

const (
	uncountedCall callKind = iota
	searchCall
	inspectionCall
	sitesCall
	sitemapsCall
)

// Calls counts the requests received since the start, including failed ones.
type Calls struct {
	SearchAnalytics int64 `json:"search_analytics"`
	Inspections     int64 `json:"inspections"`
	Sites           int64 `json:"sites"`
	Sitemaps        int64 `json:"sitemaps"`
	Tokens          int64 `json:"tokens"`
}

// Faults are the failures in force; the zero value means none. All except RevokeTokens apply only to API calls, not to the token
// endpoint.
type Faults struct {
	Site      string  `json:"site,omitempty"`       // only calls about this site are affected; empty means all
	LatencyMS int     `json:"latency_ms,omitempty"` // added to every call, at most one hour
	ErrorRate float64 `json:"error_rate,omitempty"` // share of the calls that fail, 0 to 1; zero with a Status or Reason means all
	Status    int     `json:"status,omitempty"`     // of the failures, 400 to 599; zero means the usual status of the Reason
	// Reason is the kind of failure: quotaExceeded (the load quota), rateLimitExceeded, forbidden, insufficientPermissions,
	// accessNotConfigured or backendError. Empty means the usual reason of the Status.
	Reason       string  `json:"reason,omitempty"`
	DropRate     float64 `json:"drop_rate,omitempty"`     // share of the calls whose connection closes without an answer
	RevokeTokens bool    `json:"revoke_tokens,omitempty"` // refresh tokens, assertions and access tokens are refused
}

// control holds the counters, the faults and the published days. The zero value has no faults.
type control struct {
	search, inspections, sites, sitemaps, tokens atomic.Int64

	published publishedDays
	faults    atomic.Pointer[Faults]
	random    uint64       // seeds the draws for the rates
	draws     atomic.Int64 // number of draws so far
}

func (c *control) count(kind callKind) {
	switch kind {
	case searchCall:
		c.search.Add(1)
	case inspectionCall:
		c.inspections.Add(1)
	case sitesCall:
		c.sites.Add(1)
	case sitemapsCall:
		c.sitemaps.Add(1)
	}
}

func (c *control) active() Faults {
	if f := c.faults.Load(); f != nil {
		return *f
	}
	return Faults{}
}

// strikes draws whether an event of the given probability happens.
func (c *control) strikes(rate float64) bool {
	if rate <= 0 || rate >= 1 {
		return rate > 0
	}
	return float64(hash(c.random, uint64(c.draws.Add(1)))>>11)/(1<<53) < rate
}

// Calls returns the counters.
func (s *Server) Calls() Calls {
	c := &s.control
	return Calls{
		SearchAnalytics: c.search.Load(), Inspections: c.inspections.Load(), Sites: c.sites.Load(),
		Sitemaps: c.sitemaps.Load(), Tokens: c.tokens.Load(),
	}
}

// SetFaults replaces the faults in force. If a value is out of bounds, it returns an error and changes nothing.
func (s *Server) SetFaults(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	s.control.faults.Store(&f)
	return nil
}

func (f Faults) check() error {
	switch {
	case f.LatencyMS < 0 || f.LatencyMS > 3600_000:
		return fmt.Errorf("latency_ms %d is not within 0 and 3600000", f.LatencyMS)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status %d is not within 400 and 599", f.Status)
	case !(f.ErrorRate >= 0 && f.ErrorRate <= 1):
		return fmt.Errorf("error_rate %v is not within 0 and 1", f.ErrorRate)
	case !(f.DropRate >= 0 && f.DropRate <= 1):
		return fmt.Errorf("drop_rate %v is not within 0 and 1", f.DropRate)
	}
	if f.Reason != "" && f.failure("") == nil {
		return fmt.Errorf("reason %q is not known", f.Reason)
	}
	return nil
}

// failure returns the error that the faults describe, for a call about siteURL; nil if the reason is unknown.
func (f Faults) failure(siteURL string) *apiError {
	reason := f.Reason
	if reason == "" {
		reason = "backendError"
		switch f.Status {
		case http.StatusForbidden:
			reason = forbidden
		case http.StatusTooManyRequests:
			reason = "rateLimitExceeded"
		}
	}
	var e *apiError
	switch reason {
	case "quotaExceeded":
		e = loadQuota()
	case "rateLimitExceeded":
		e = rateQuota(http.StatusTooManyRequests, "rateLimitExceeded")
	case forbidden:
		e = forbiddenSite(siteURL)
	case "insufficientPermissions":
		e = insufficientScope()
	case "accessNotConfigured":
		e = accessNotConfigured()
	case "backendError":
		e = f.plainFailure()
	default:
		return nil
	}
	if f.Status != 0 {
		e.code = f.Status
	}
	return e
}

// plainFailure returns the failure of a status, or of backendError.
func (f Faults) plainFailure() *apiError {
	switch {
	case f.Status == 0:
		return backendError(http.StatusServiceUnavailable)
	case f.Reason != "" || f.Status >= http.StatusInternalServerError:
		return backendError(f.Status)
	case f.Status == http.StatusUnauthorized:
		return unauthenticated()
	default:
		return &apiError{code: f.Status, status: "INVALID_ARGUMENT", reason: "badRequest", message: http.StatusText(f.Status)}
	}
}

// fault delays, drops or fails a call as the faults in force require; nil lets it pass.
func (s *Server) fault(r *http.Request, call callKind) *apiError {
	f := s.control.active()
	if call == uncountedCall || f == (Faults{}) {
		return nil
	}
	siteURL := siteURLOf(r)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody)) // net/http notices a disconnected client only after that
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if call == inspectionCall {
		siteURL = inspectedSite(body)
	}
	if f.Site != "" && f.Site != siteURL {
		return nil
	}
	if err := sleep(r.Context(), time.Duration(f.LatencyMS)*time.Millisecond); err != nil || s.control.strikes(f.DropRate) {
		panic(http.ErrAbortHandler)
	}
	rate := f.ErrorRate
	if rate == 0 && (f.Status != 0 || f.Reason != "") {
		rate = 1
	}
	if !s.control.strikes(rate) {
		return nil
	}
	e := f.failure(siteURL)
	if call == inspectionCall && e.reason == forbidden {
		e.message = forbiddenInspection().message
	}
	return e
}

// inspectedSite returns the site of an inspection's request, empty if the body names none.
func inspectedSite(body []byte) string {
	var request inspectRequest
	_ = json.Unmarshal(body, &request) // the handler refuses a malformed body
	return request.SiteURL
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serveControl answers the simulator's own endpoints.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/_sim/calls" && r.Method == http.MethodGet:
		writeJSON(w, r, http.StatusOK, s.Calls())
	case r.URL.Path == "/_sim/faults" && r.Method == http.MethodPut:
		var f Faults
		s.put(w, r, &f, func() error { return s.SetFaults(f) })
	case r.URL.Path == "/_sim/published" && r.Method == http.MethodPut:
		var p struct {
			Site    string `json:"site"`
			LastDay string `json:"last_day"`
		}
		s.put(w, r, &p, func() error { return s.SetPublished(p.Site, p.LastDay) })
	case r.URL.Path == "/_sim/client.json" && r.Method == http.MethodGet && len(s.config.Clients) > 0:
		writeJSON(w, r, http.StatusOK, rawJSON(s.config.Clients[0].JSON("http://"+r.Host)))
	case r.URL.Path == "/_sim/calls", r.URL.Path == "/_sim/faults", r.URL.Path == "/_sim/published":
		http.Error(w, "this method is not for "+r.URL.Path, http.StatusMethodNotAllowed)
	default:
		http.NotFound(w, r)
	}
}

// put reads a JSON body into a value, and sets what it describes.
func (s *Server) put(w http.ResponseWriter, r *http.Request, into any, set func() error) {
	err := readControl(http.MaxBytesReader(w, r.Body, maxBody), into)
	if err == nil {
		err = set()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func readControl(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	if decoder.More() {
		return errors.New("reading the body: more than one JSON value")
	}
	return nil
}
