// Package balancer is a small HTTP load balancer that obeys /readyz: it sends requests in turn to the replicas that were ready
// at their last probe, and tries another one if a connection fails, as nginx does by default for GET requests. It exists because
// open-source nginx has no active health checks.
package balancer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	probeInterval = 200 * time.Millisecond
	probeTimeout  = time.Second
	// answerTimeout bounds one attempt at one replica. It is more than a replica takes for any known question.
	answerTimeout = 2 * time.Second
)

// Answered is the response header with the address of the replica that answered.
const Answered = "X-Backend"

// A Backend is one replica.
type Backend struct {
	Address string // host:port
	Admin   string // URL of its admin endpoints
}

// A Balancer is safe for concurrent use.
type Balancer struct {
	URL string

	server   *httptest.Server
	client   *http.Client // of requests
	prober   *http.Client
	probing  sync.WaitGroup
	next     atomic.Uint64
	setting  sync.Mutex // held by Set, including while it probes
	mu       sync.Mutex // guards the following field
	backends []*backend
}

type backend struct {
	Backend
	ready atomic.Bool
	stop  context.CancelFunc
}

// Start starts a balancer without backends.
func Start() *Balancer {
	dialer := net.Dialer{Timeout: probeTimeout}
	b := &Balancer{prober: &http.Client{Timeout: probeTimeout},
		client: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	b.server = httptest.NewServer(b)
	b.URL = b.server.URL
	return b
}

// Close stops the balancer and its probes.
func (b *Balancer) Close() {
	b.Set(nil)
	b.probing.Wait()
	b.server.Close()
	b.client.CloseIdleConnections()
	b.prober.CloseIdleConnections()
}

// Set replaces the backends. Those that stay keep their state. New ones are probed before they take part.
func (b *Balancer) Set(backends []Backend) {
	b.setting.Lock()
	defer b.setting.Unlock()
	before := slices.Clone(b.backends) // only Set writes it
	after := make([]*backend, len(backends))
	for i, wanted := range backends {
		if at := slices.IndexFunc(before, func(old *backend) bool { return old.Backend == wanted }); at >= 0 {
			after[i] = before[at]
			before = slices.Delete(before, at, at+1)
		} else {
			after[i] = b.watch(wanted)
		}
	}
	b.mu.Lock()
	b.backends = after
	b.mu.Unlock()
	for _, old := range before {
		old.stop()
	}
}

// watch starts to probe a backend.
func (b *Balancer) watch(wanted Backend) *backend {
	ctx, stop := context.WithCancel(context.Background())
	one := &backend{Backend: wanted, stop: stop}
	one.ready.Store(b.probe(ctx, wanted))
	b.probing.Go(func() {
		tick := time.NewTicker(probeInterval)
		defer tick.Stop()
		for ctx.Err() == nil {
			one.ready.Store(b.probe(ctx, wanted))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return one
}

func (b *Balancer) probe(ctx context.Context, of Backend) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, of.Admin+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := b.prober.Do(request)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Ready returns how many backends were ready at their last probe.
func (b *Balancer) Ready() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.backends {
		if one.ready.Load() {
			n++
		}
	}
	return n
}

// order returns the ready backends, starting with the one whose turn it is.
func (b *Balancer) order() (ready []*backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := int(b.next.Add(1))
	for i := range b.backends {
		if one := b.backends[(turn+i)%len(b.backends)]; one.ready.Load() {
			ready = append(ready, one)
		}
	}
	return ready
}

var errNoneReady = errors.New("no replica is ready")

// ServeHTTP implements http.Handler.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := errNoneReady
	for _, one := range b.order() {
		var response *http.Response
		response, err = b.try(r, one)
		if err != nil {
			continue
		}
		maps.Copy(w.Header(), response.Header)
		w.Header().Set(Answered, one.Address)
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body) // the client notices a short body
		_ = response.Body.Close()
		return
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}

// try sends a request to one backend. A question that asks for more patience names it in X-Patience.
func (b *Balancer) try(r *http.Request, one *backend) (*http.Response, error) {
	patience := answerTimeout
	if asked, err := time.ParseDuration(r.Header.Get("X-Patience")); err == nil {
		patience = asked
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	request, err := http.NewRequestWithContext(ctx, r.Method, "http://"+one.Address+r.URL.RequestURI(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header = r.Header.Clone()
	response, err := b.client.Do(request)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = cancelingBody{response.Body, cancel}
	return response, nil
}

// A cancelingBody ends the context of its request when it is closed.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelingBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
