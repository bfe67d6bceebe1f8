package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	"sara/proxy/connections"
)

// A network is the part of a server that accepts connections, and reads requests from them.
type network struct {
	edge      *fasthttp.Server
	open      *connections.Set
	listening listening
}

// serve answers requests on a listener until shutdown, and closes it.
func (n *network) serve(l net.Listener) error {
	if !n.listening.begin(l) {
		return l.Close()
	}
	if err := n.edge.Serve(l); err != nil {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// shutdown stops accepting, and waits for the requests in flight, or until ctx ends.
func (n *network) shutdown(ctx context.Context) error {
	defer n.listening.end()
	var sweep sync.WaitGroup
	sweeping, stop := context.WithCancel(ctx)
	defer sweep.Wait()
	defer stop()
	sweep.Go(func() { n.open.CloseUnused(sweeping) })
	if err := n.edge.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("drain the server: %w", err)
	}
	return nil
}

// A listening is the listener of a server, from Serve to Shutdown. Either may come first.
type listening struct {
	mu       sync.Mutex // guards the following fields
	listener net.Listener
	ended    bool
}

// begin registers the listener. It reports false if end came first.
func (l *listening) begin(on net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener = on
	return !l.ended
}

// end closes the listener, and makes a later begin fail. The HTTP library's shutdown misses a listener that it has not yet begun to serve.
func (l *listening) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.listener != nil {
		_ = l.listener.Close() // usually closed already
	}
}
