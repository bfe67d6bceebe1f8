package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy/panics"
	"sara/proxy/cpubound"
	"sara/translate"
)

const (
	// maxReply bounds the decoded body of an answer to any call except a query.
	maxReply = 8 << 20
	// maxErrorBody is how many bytes of an error body are read.
	maxErrorBody = 64 << 10
	// maxConns is far more than the upstream's 40,000 queries a minute need.
	maxConns    = 512
	dialTimeout = 3 * time.Second
	// maxIdle is below the idle timeout of Google's front ends, so few requests meet a closed connection.
	maxIdle = time.Minute
	// userAgent must contain "gzip": Google compresses only if both it and Accept-Encoding say so.
	userAgent = "sara (gzip)"
	// queryTemplate is the path of a query; spans show it instead of the path with the site.
	queryTemplate = "/webmasters/v3/sites/{site}/searchAnalytics/query"
	// queryParameters are standard parameters of all Google APIs. fields asks for a partial response: the members that
	// translate.RowsReader reads, except for ctr, which it computes as Google does. Google recommends it for this API:
	// https://developers.google.com/webmaster-tools/v1/how-tos/performance
	queryParameters = "?prettyPrint=false&fields=rows(keys,clicks,impressions,position),responseAggregationType,metadata"
)

// A transport is the HTTP client of the hot path: requests out, decoded bodies in. No body is ever held as a whole.
type transport struct {
	base     string // without a trailing slash
	name     string // of the host
	host     *fasthttp.HostClient
	now      func() time.Time
	ahead    atomic.Int64   // see clockAhead, in nanoseconds
	inflight sync.WaitGroup // exchanges, which may outlive their callers
	unzips   sync.Pool      // of *gzip.Reader
	slots    *cpubound.Slots
}

func newTransport(cfg Config) (*transport, error) {
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("upstream base URL: want http or https, a host and at most a path")
	}
	isTLS := u.Scheme == "https"
	host := &fasthttp.HostClient{
		Addr:     fasthttp.AddMissingPort(u.Host, isTLS),
		IsTLS:    isTLS,
		Name:     userAgent,
		MaxConns: maxConns,
		// Newest first: if that one turns out to be closed, the others have been idle for longer.
		ConnPoolStrategy:    fasthttp.LIFO,
		MaxIdleConnDuration: maxIdle,
		MaxConnWaitTimeout:  dialTimeout,
		ReadTimeout:         cfg.AttemptTimeout,
		WriteTimeout:        cfg.AttemptTimeout,
		StreamResponseBody:  true,
		// The site is one path segment whose %2F must stay as it is.
		DisablePathNormalizing: true,
		SecureErrorLogMessage:  true,
		// The client counts and paces attempts; the library must not add its own.
		MaxIdemponentCallAttempts: 1,
	}
	if isTLS {
		host.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	host.DialTimeout = func(address string, left time.Duration) (net.Conn, error) {
		if left <= 0 { // the library dials for a request that may go elsewhere
			left = cfg.AttemptTimeout
		}
		return dialKept(address, left, host.TLSConfig)
	}
	return &transport{base: strings.TrimRight(cfg.BaseURL, "/"), name: u.Hostname(), host: host, now: cfg.Now, slots: cfg.Slots}, nil
}

func (t *transport) close() {
	t.inflight.Wait()
	t.host.CloseIdleConnections()
}

// A queryCall is one searchAnalytics.query.
type queryCall struct {
	site     string
	question []byte // the JSON body, neither changed nor retained
	most     int64  // bytes of the answer's body, decoded
	// read reads the body of a 200 to its end. An error of the body takes precedence over read's own. It may still be running when the
	// call has ended.
	read func(body io.Reader) (*translate.Rows, error)
}

// query sends a query. The socket cannot be interrupted, so the exchange runs in a goroutine: the caller leaves when ctx ends, and
// the exchange ends by ctx's deadline at the latest.
func (t *transport) query(ctx context.Context, access string, q queryCall) (*translate.Rows, error) {
	req := fasthttp.AcquireRequest()
	req.SetRequestURI(t.base + "/webmasters/v3/sites/" + escapeSite(q.site) + "/searchAnalytics/query" + queryParameters)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.Header.Set(fasthttp.HeaderAcceptEncoding, "gzip")
	req.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+access)
	req.SetBody(q.question) // copies it, since the exchange may outlive the caller

	type answer struct {
		rows *translate.Rows
		err  error
	}
	answers := make(chan answer, 1)
	t.inflight.Go(func() {
		defer fasthttp.ReleaseRequest(req)
		var a answer
		defer func() { answers <- a }()
		defer panics.Recover(&a.err)
		a.rows, a.err = t.exchange(ctx, req, access, &q)
	})
	select {
	case a := <-answers:
		return a.rows, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exchange sends req and reads the body of a 200 as it arrives.
func (t *transport) exchange(ctx context.Context, req *fasthttp.Request, access string, q *queryCall) (*translate.Rows, error) {
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp) // closes the connection, unless the body was read to its end
	deadline, _ := ctx.Deadline()        // every attempt has one
	if err := t.host.DoDeadline(req, resp, deadline); err != nil {
		return nil, t.failure(err, access)
	}
	body := t.openBody(ctx, resp, access, q.most)
	defer body.close()
	if resp.StatusCode() != http.StatusOK {
		if resp.StatusCode() >= http.StatusInternalServerError {
			resp.SetConnectionClose() // a proxy that has given up may still send the answer that it waited for
		}
		// An error body that cannot be decoded classifies like an empty one.
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
		return nil, classify(errorReply{
			status:     resp.StatusCode(),
			retryAfter: string(resp.Header.Peek(fasthttp.HeaderRetryAfter)),
			body:       text,
		}, t.now(), access)
	}
	if at, err := http.ParseTime(string(resp.Header.Peek(fasthttp.HeaderDate))); err == nil {
		t.ahead.Store(int64(t.now().Sub(at)))
	}
	rows, err := q.read(body)
	if body.err != nil {
		return nil, body.err
	}
	return rows, err
}

// clockAhead returns how far this machine's clock is ahead of Search Console's, by the date of its last 200: a proxy in between may have
// a clock of its own.
func (t *transport) clockAhead() time.Duration { return time.Duration(t.ahead.Load()) }

// failure returns the error of an exchange without a complete answer.
func (t *transport) failure(err error, access string) error {
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrTimeout), errors.As(err, &network) && network.Timeout():
		return context.DeadlineExceeded
	case errors.Is(err, fasthttp.ErrConnectionClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		// The other idle connections are older than this one; the next attempt must not use them.
		t.host.CloseIdleConnections()
		e := unreachable("the connection closed before the answer")
		e.dropped = true
		return e
	default:
		return unreachable(err.Error(), access)
	}
}

// tooLarge is final: the same query would get the same answer.
func tooLarge(most int64) *Error {
	return &Error{Kind: Unavailable, Status: http.StatusOK, Message: fmt.Sprintf("answered more than %d bytes", most)}
}

func badReply(what string) *Error {
	return &Error{Kind: Unavailable, Status: http.StatusOK, Message: "answered " + what, transient: true}
}

// escapeSite encodes a property as one path segment, including ':' and '/', as Google's own clients do.
func escapeSite(site string) string {
	return strings.ReplaceAll(url.QueryEscape(site), "+", "%20")
}
