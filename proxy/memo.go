package proxy

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/policy/lru"
	"sara/translate"
)

// An admittedRequest is the memoized result of the stages for a request, because dashboards repeat the same requests. While
// none of its inputs has changed, an equal request needs only its key and its budgets checked.
type admittedRequest struct {
	route      *route
	grant      *policy.Grant // of the request that was memoized
	window     translate.Window
	windowEnds time.Time
	params     *translate.Params
	property   *policy.Property
	request    reportRequest
	logged     []byte // what the access log says about grant and property
}

// A memoKey identifies a request. The hash does not reveal its API key.
type memoKey struct {
	key policy.Hash
	uri string
}

const (
	maxMemoEntries = 10_000  // of about four kilobytes each
	maxMemoKey     = 1 << 10 // bytes of Authorization and URL; longer requests are not memoized
	usualTenant    = 160     // bytes of a tenant in the access log, with ids of the usual length
)

// A memo keeps admitted requests whose answer was found in memory or in Redis. It is safe for concurrent use.
type memo struct {
	gate     *policy.Gate
	calendar translate.Calendar
	format   AccessFormat // of the access log
	kept     *lru.Cache[memoKey, *admittedRequest]
}

func newMemo(gate *policy.Gate, calendar translate.Calendar, format AccessFormat) *memo {
	return &memo{gate, calendar, format, lru.New[memoKey](lru.Config[*admittedRequest]{Weight: maxMemoEntries})}
}

// memoKeyOf returns the key of a request, whose URI shares the request's bytes. ok is false unless it is a GET with exactly one
// Authorization field and at most maxMemoKey bytes of Authorization and URL.
func memoKeyOf(http *fasthttp.RequestCtx, h *requestHeader) (key memoKey, ok bool) {
	uri := http.RequestURI()
	if h.keyHash == (policy.Hash{}) || len(h.authorization)+1+len(uri) > maxMemoKey || !http.IsGet() {
		return key, false
	}
	return memoKey{h.keyHash, unsafe.String(unsafe.SliceData(uri), len(uri))}, true
}

// find returns the entry for a request, nil if there is none or if it is no longer valid: an account, key or property has changed, or a new
// day moved the anchor.
func (m *memo) find(http *fasthttp.RequestCtx, h *requestHeader) *admittedRequest {
	key, ok := memoKeyOf(http, h)
	if !ok {
		return nil
	}
	found, _ := m.kept.Get(key)
	if found == nil || !m.gate.StillValid(found.grant, h.at) || found.window.Anchor != m.calendar.Anchor(h.at) {
		return nil
	}
	return found
}

// keep keeps an admitted request. Requests with brand or page group filters are left out, because the gate does not notice
// when those are reconfigured.
func (m *memo) keep(x *exchange, q *reportRequest) {
	key, ok := memoKeyOf(x.http, &x.header)
	if !ok || translate.UsesSegments(x.params.Filters) {
		return
	}
	admitted := &admittedRequest{route: x.route, grant: x.grant, window: x.window, windowEnds: x.windowEnds, params: x.params,
		property: x.property, request: *q}
	text := append(make([]byte, 0, len(q.key)+usualTenant), q.key...)
	admitted.request.key = slices.Clip(text)
	admitted.request.call = nil // whose memory is reused
	admitted.logged = m.format.appendTenant(text[len(text):], admitted.grant, admitted.property)
	key.uri = strings.Clone(key.uri)
	m.kept.Put(key, admitted)
}
