package status

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"

	"sara/cmd/sara/internal/console"
	"sara/proxy"
)

// Replica shows the health of one replica.
type Replica struct {
	URL       string  `json:"url"`
	IP        *string `json:"ip"`    // which of the URL's addresses; null if the host is an address
	State     string  `json:"state"` // ready, degraded, draining, unready or unreachable
	Reason    string  `json:"reason"`
	Version   *string `json:"version"`
	StartedAt *string `json:"started_at"`
	// Circuits are null if the replica's metrics cannot be read.
	Circuits Circuits `json:"open_circuits"`
	// Store is null if the replica's metrics cannot be read, or it watches no object store.
	Store *StoreUse `json:"object_store"`
}

const replicaUnreachable = "unreachable"

func (r Replica) address() string {
	if r.IP == nil {
		return r.URL
	}
	return r.URL + " (" + *r.IP + ")"
}

// askReplicas queries the admin endpoints of every address of each URL concurrently.
func askReplicas(ctx context.Context, bases []string) []Replica {
	const most = 64 // at a time
	var replicas []Replica
	for _, base := range bases {
		replicas = append(replicas, resolve(ctx, base)...)
	}
	var asking errgroup.Group
	asking.SetLimit(most)
	for i := range replicas {
		asking.Go(func() error {
			replicas[i].ask(ctx)
			return nil
		})
	}
	_ = asking.Wait() // none of them returns an error
	return replicas
}

// resolve returns the replicas behind a URL: one for each IPv4 address of its host, else one for each IPv6 address. A machine with
// both is one replica.
func resolve(ctx context.Context, base string) []Replica {
	only := []Replica{{URL: base}}
	u, err := url.Parse(base)
	if err != nil {
		return only
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return only
	}
	ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", u.Hostname())
	if err != nil || len(found) == 0 {
		found, err = net.DefaultResolver.LookupNetIP(ctx, "ip6", u.Hostname())
	}
	if err != nil {
		only[0].State, only[0].Reason = replicaUnreachable, err.Error()
		return only
	}
	slices.SortFunc(found, netip.Addr.Compare)
	replicas := make([]Replica, len(found))
	for i, ip := range found {
		replicas[i] = Replica{URL: base, IP: new(ip.Unmap().String())}
	}
	return replicas
}

// ask queries the replica and fills in its health.
func (r *Replica) ask(ctx context.Context) {
	if r.State != "" {
		return // its name did not resolve
	}
	transport := &http.Transport{} // ignore proxies of the environment
	if r.IP != nil {
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(*r.IP, port))
		}
	}
	defer transport.CloseIdleConnections()
	status, err := Readiness(ctx, transport, r.URL)
	if err != nil {
		if wrapped := errors.Unwrap(err); wrapped != nil {
			err = wrapped // the report shows the address beside it
		}
		r.State, r.Reason = replicaUnreachable, err.Error()
		return
	}
	r.fill(status)
	metrics := scrape(ctx, transport, r.URL)
	r.Circuits, r.Store = metrics.circuits(), metrics.storeUse()
}

func (r *Replica) fill(status proxy.Status) {
	r.State, r.Reason, r.Version, r.StartedAt = status.State, status.Reason, &status.Version, console.OptionalTime(&status.StartedAt)
}
