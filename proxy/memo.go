package proxy

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"
	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/translate"
)

// A meaning is what a request was found to mean: dashboards ask the same again and again. As long as nobody has changed
// anything, the same bytes mean the same, and only what is left of the budgets has to be found out anew.
type admittedRequest struct {
	route    *route
	grant    *policy.Grant // of the request that it was found out for
	window   translate.Window
	params   *translate.Params
	property *policy.Property
	request  reportRequest
}

// meanings remembers what requests meant that memory had an answer for.
type memo struct {
	// An interface of an otter.Cache: whatever imports a struct with a field of a generic type compiles the type's methods again.
	entries interface {
		GetIfPresent(memoKey) (*admittedRequest, bool)
		Set(memoKey, *admittedRequest) (*admittedRequest, bool)
	}
}

// A memoKey stands for the bytes of a request that say what it means. It does not tell the key.
type memoKey [sha256.Size]byte

const (
	maxMemoEntries = 10_000 // of a kilobyte each, or a little more
	maxMemoKey     = 1 << 10
)

func newMemo() (memo, error) {
	entries, err := otter.New(&otter.Options[memoKey, *admittedRequest]{MaximumSize: maxMemoEntries})
	if err != nil {
		return memo{}, fmt.Errorf("make a memory of %d meanings: %w", maxMemoEntries, err)
	}
	return memo{entries}, nil
}

// memoKeyOf returns none of a request that is longer than most, or has no telling whose it is.
func memoKeyOf(http *fasthttp.RequestCtx, h *requestHeader) (print memoKey, ok bool) {
	var buffer [maxMemoKey]byte // on the stack
	key, uri := h.key(), http.RequestURI()
	if key == "" || len(key)+1+len(uri) > len(buffer) || !http.IsGet() {
		return print, false
	}
	text := append(append(buffer[:0], key...), '\n') // which no header holds
	return sha256.Sum256(append(text, uri...)), true
}

// recall returns what the request means, nil if that has to be found out.
func (s *Server) memoized(http *fasthttp.RequestCtx, h *requestHeader) *admittedRequest {
	print, ok := memoKeyOf(http, h)
	if !ok {
		return nil
	}
	m, ok := s.memo.entries.GetIfPresent(print)
	if !ok || !s.gate.StillValid(m.grant, h.at) || m.window.Anchor != s.calendar.Anchor(h.at) {
		return nil
	}
	return m
}

// remember keeps what a request meant. What filters mean is configured for the property, and not part of what the gate knows
// to have changed.
func (s *Server) memoize(c *call, q *reportRequest) {
	print, ok := memoKeyOf(c.http, &c.header)
	if !ok || translate.UsesSegments(c.params.Filters) {
		return
	}
	m := &admittedRequest{route: c.route, grant: c.grant, window: c.window, params: c.params, property: c.property, request: *q}
	m.request.key = slices.Clip(slices.Clone(q.key))
	s.memo.entries.Set(print, m)
}
