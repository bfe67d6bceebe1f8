package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sara/proxy/cache"
	"sara/proxy/media"
	"sara/translate"
)

// The cache statuses (spec: meta.cache). A stale copy is a hit too.
const (
	cacheHit    = "hit"
	cacheMiss   = "miss"
	cacheBypass = "bypass" // the endpoint has no response cache, or the client sent no-cache
)

// A reply is the success that a handler returns.
type reply struct {
	answer      *cache.Answer                                          // the body up to the tail, shared by requests
	tail        func(dst []byte, cacheStatus, requestID string) []byte // appends the rest, which differs between requests
	cacheStatus string
	maxAge      int           // seconds that a client may keep it, mustRevalidate or noStore
	format      media.Format  // of the body
	fields      []cache.Field // of the header, instead of the meta
}

// reply returns the reply of a report. A client may keep it as long as it stays fresh.
func (c *call) reply(answer *cache.Answer, fresh time.Duration, cacheStatus string) reply {
	return reply{answer: answer, tail: translate.AppendTail, cacheStatus: cacheStatus, maxAge: max(mustRevalidate, int(fresh/time.Second))}
}

// compressFrom is the length of a body below which compression saves nothing.
const compressFrom = 1 << 10

// send answers a request with a reply, or with 304 if the client has it already.
func (s *Server) send(c *call, r reply) {
	response := &c.http.Response
	tag := r.answer.ETag()
	if c.hasCurrent(tag) {
		c.http.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		c.http.SetStatusCode(fasthttp.StatusOK)
		c.writeBody(r)
		s.holdBody(c)
	}
	c.setHeaders(r.cacheStatus, r.maxAge, c.allowance())
	setHeader(&response.Header, "Etag", tag)
	if r.format != media.JSON {
		c.setFormat(r)
	}
}

// forms write answers in the forms that clients prefer, and keep what they have written with the answer. They are safe for concurrent use.
type forms struct {
	work  largeWork
	cache *cache.Cache
}

// finish returns the reply in the form that the client prefers. A long answer that must be converted or compressed waits for its turn among other
// large work.
func (f forms) finish(ctx context.Context, c *call, r reply) (reply, error) {
	if c.isAtHand(r.answer) {
		return f.inForm(c, r)
	}
	end, err := f.work.beginText(ctx, r.answer.Head())
	if err != nil {
		return reply{}, err
	}
	defer end()
	return f.inForm(c, r)
}

// isAtHand reports whether the answer needs to be neither converted nor compressed.
func (c *call) isAtHand(a *cache.Answer) bool {
	if f := c.header.format; f != media.JSON && c.route.table != nil {
		made := a.Rendition(int(f))
		if made == nil {
			return false
		}
		a = made.Answer
	}
	return !c.packs(a) || a.IsPacked() || c.hasCurrent(a.ETag())
}

// inForm returns the reply in the format that the client prefers, and compresses it if it will be sent so. Both are kept with the answer.
func (f forms) inForm(c *call, r reply) (reply, error) {
	r, err := f.render(c, r)
	if err == nil && c.packs(r.answer) && !c.hasCurrent(r.answer.ETag()) {
		r.answer.Packed()
	}
	return r, err
}

// packs reports whether the client gets an answer compressed.
func (c *call) packs(a *cache.Answer) bool { return c.header.gzip && len(a.Head()) >= compressFrom }

// setFormat sets the headers of a body that is not JSON.
func (c *call) setFormat(r reply) {
	header := &c.http.Response.Header
	header.SetContentType(r.format.ContentType())
	for _, f := range r.fields {
		header.Add(f.Name, f.Value) // a name may repeat
	}
	c.format = r.format
}

// hasCurrent reports whether the client has this answer already (RFC 9110, If-None-Match). Tags are compared weakly, because
// they do not cover the tail.
func (c *call) hasCurrent(tag string) bool {
	if !c.header.conditional {
		return false
	}
	for _, line := range c.http.Request.Header.PeekAll(fasthttp.HeaderIfNoneMatch) {
		for member := range bytes.SplitSeq(line, []byte(",")) {
			member = bytes.TrimSpace(member)
			if string(member) == "*" || string(bytes.TrimPrefix(member, []byte("W/"))) == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}

// Values of maxAge that are not a number of seconds.
const (
	mustRevalidate = 0  // the client may keep the answer, but must revalidate it before each use
	noStore        = -1 // the client must not keep the answer
)

// setHeaders sets the headers of every answer of the API. Shared caches must not keep answers: another key gets another answer at the
// same URL, and an error may end at any moment. Only routes that need no key are public.
func (c *call) setHeaders(cacheStatus string, maxAge int, left allowance) {
	header := c.commonHeader()
	header.SetContentType(media.JSON.ContentType())
	setHeader(header, "X-Cache", cacheStatus)
	var buffer [64]byte
	header.SetCanonical([]byte(fasthttp.HeaderCacheControl), c.appendCacheControl(buffer[:0], maxAge))
	if c.route.Open && c.route.Operation == "" {
		setHeader(header, fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
		return
	}
	if c.route.table == nil {
		setHeader(header, fasthttp.HeaderVary, "Authorization, Accept-Encoding")
	} else {
		setHeader(header, fasthttp.HeaderVary, "Authorization, Accept, Accept-Encoding")
	}
	if c.route.Path != pathMalformed { // whose account is not known: zeros would read as an allowance that is used up
		left.set(header)
	}
}

// commonHeader returns the header of the answer, with what every one has.
func (c *call) commonHeader() *fasthttp.ResponseHeader {
	header := &c.http.Response.Header
	setHeader(header, "X-Request-Id", c.id)
	setHeader(header, "X-Content-Type-Options", "nosniff")
	return header
}

// setHeader sets a header whose name is in canonical form already, which saves normalizing it.
func setHeader(header *fasthttp.ResponseHeader, name, value string) {
	header.SetCanonical([]byte(name), []byte(value)) // the library copies: neither conversion allocates
}

func (c *call) appendCacheControl(dst []byte, maxAge int) []byte {
	switch {
	case maxAge == noStore:
		return append(dst, "private, no-store"...)
	case c.route.Open && c.grant == nil:
		dst = append(dst, "public, max-age="...)
	default:
		dst = append(dst, "private, max-age="...)
	}
	return strconv.AppendInt(dst, int64(maxAge), 10)
}

// An allowance is what the X-RateLimit headers show: what is left of a limit, and when that resets, in seconds since 1970.
type allowance struct {
	limit, remaining int
	reset            int64
}

// allowance returns the daily allowance of the request's account, zeros if it has none.
func (c *call) allowance() allowance {
	a := allowance{reset: nextUTCMidnight(c.allowanceTime()).Unix()}
	if c.grant != nil {
		a.limit = c.grant.Plan.RequestsPerDay
		a.remaining = max(0, a.limit-c.grant.Usage.RequestsToday)
	}
	return a
}

// allowanceTime is the time of the request by the clock of the counters, if they were read.
func (c *call) allowanceTime() time.Time {
	if c.grant != nil && !c.grant.Usage.At.IsZero() {
		return c.grant.Usage.At
	}
	return c.started
}

func (a allowance) set(header *fasthttp.ResponseHeader) {
	var buffer [20]byte
	set := func(name string, n int64) { header.SetCanonical([]byte(name), strconv.AppendInt(buffer[:0], n, 10)) }
	set("X-Ratelimit-Limit", int64(a.limit))
	set("X-Ratelimit-Remaining", int64(a.remaining))
	set("X-Ratelimit-Reset", a.reset)
}

// nextUTCMidnight is when the daily allowances reset (spec: Limits 1).
func nextUTCMidnight(now time.Time) time.Time {
	const day = 24 * 60 * 60
	return time.Unix((now.Unix()/day+1)*day, 0).UTC()
}

// rows is the data of a list.
type rows[T any] struct {
	Rows []T `json:"rows"`
}

// envelope returns the reply of an endpoint without a response cache. The client must revalidate it before each use.
func envelope(data, meta any) reply {
	head := appendJSON([]byte(`{"success":true,"data":`), data)
	head = append(head, `,"meta":`...)
	head = bytes.TrimSuffix(appendJSON(head, meta), []byte("}"))
	if head[len(head)-1] != '{' {
		head = append(head, ',')
	}
	return reply{answer: cache.NewAnswer(append(head, `"request_id":"`...), time.Time{}), cacheStatus: cacheBypass, tail: appendRequestID}
}

func appendRequestID(dst []byte, _, requestID string) []byte {
	return append(append(dst, requestID...), `"}}`...)
}

func appendJSON(dst []byte, value any) []byte {
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("BUG: the payload %T does not marshal: %v", value, err))
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// appendText appends a text as a JSON string. Most texts need no escapes.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendJSON(dst, text)
		}
	}
	dst = append(append(dst, '"'), text...)
	return append(dst, '"')
}

// convertAll converts a list. An empty list stays a list, which JSON needs: null would be another type.
func convertAll[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// timestamp formats a time as the API does (spec: ISO 8601, UTC).
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// optional returns nil, which JSON writes as null, for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
