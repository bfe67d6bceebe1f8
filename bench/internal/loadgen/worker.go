package loadgen

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

const (
	readBuffer  = 16 << 10 // a typical answer arrives in one read
	exampleSize = 500

	longest     = time.Minute
	significant = 2 // digits of a latency
)

// newHistogram returns an empty histogram, of some tens of kilobytes.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), significant) }

// A worker sends one request at a time, over one connection. It belongs to one goroutine.
type worker struct {
	client   fasthttp.HostClient
	request  fasthttp.Request
	response fasthttp.Response

	statuses map[int]int64
	cache    map[string]*int64
	examples map[int]string
	received int64
}

// newWorker connects. When ctx ends, the connection is closed, which unblocks a worker that waits for an answer.
func newWorker(ctx context.Context, address string) (*worker, error) {
	w := &worker{statuses: map[int]int64{}, cache: map[string]*int64{}, examples: map[int]string{}}
	first, err := w.dial(ctx, address)
	w.client = fasthttp.HostClient{
		Addr: address, MaxConns: 1, ReadBufferSize: readBuffer, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
		Dial: func(address string) (net.Conn, error) {
			if conn := first; conn != nil { // opened before the clock started
				first = nil
				return conn, nil
			}
			return w.dial(ctx, address)
		},
		MaxIdemponentCallAttempts: 2,
		RetryIfErr: func(_ *fasthttp.Request, _ int, err error) (resetTimeout, retry bool) {
			return false, ClosedBetweenAnswers(err)
		},
	}
	return w, err
}

// ClosedBetweenAnswers reports whether the server closed a kept-alive connection before it answered, as servers may at any
// time. Then a GET is sent once more.
func ClosedBetweenAnswers(err error) bool {
	return err == io.EOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) // a wrapped io.EOF is half an answer
}

func (w *worker) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &countingConn{Conn: conn, received: &w.received}, nil
}

// countingConn counts the bytes that it reads.
type countingConn struct {
	net.Conn
	received *int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	*c.received += int64(n)
	return n, err
}

// exchange sends the request and counts the answer.
func (w *worker) exchange() error {
	if err := w.client.Do(&w.request, &w.response); err != nil {
		return err
	}
	status := w.response.StatusCode()
	w.statuses[status]++
	if state := w.response.Header.Peek("X-Cache"); len(state) > 0 {
		count, ok := w.cache[string(state)]
		if !ok {
			count = new(int64)
			w.cache[string(state)] = count
		}
		*count++
	}
	if _, ok := w.examples[status]; !ok && status != fasthttp.StatusOK && status != fasthttp.StatusNotModified {
		body := w.response.Body()
		w.examples[status] = string(body[:min(len(body), exampleSize)])
	}
	return nil
}
