package cdn_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestLimits runs nginx with the unchanged limits of one client. Another load balancer in front of it names the client, so
// clients can have IPv6 addresses, which the machine may lack.
func TestLimits(t *testing.T) {
	const status = "limit_req_status  429;"
	o := newOriginBehind(t, func(t *testing.T, replicas [2]string) *cdn {
		t.Helper()
		return startLimitedCDN(t, replicas, status, status+" set_real_ip_from 127.0.0.5; real_ip_header "+clientField+";")
	})
	t.Run("requests of an IPv6 network", o.testNetworkLimit)
	t.Run("requests of an address", o.testAddressLimit)
	t.Run("requests with a key", o.testKeyLimit)
	t.Run("requests at the same time", o.testConcurrencyLimit)
}

// clientField is the header field in which the load balancer at 127.0.0.5 names the client.
const clientField = "X-Test-Client"

// flood sends n concurrent requests from an address, and returns how many are refused.
func (o *origin) flood(t *testing.T, n int, address string, headers ...string) (refused int) {
	t.Helper()
	asker := client(address)
	var mu sync.Mutex
	var asking sync.WaitGroup
	slots := make(chan struct{}, 32)
	for range n {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			a, err := ask(asker, http.MethodGet, o.cdn.base+"/v1/me", headers...)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusTooManyRequests:
				refused++
				a.wantEnvelope(t, http.StatusTooManyRequests, "RATE_LIMITED")
				if a.header.Get("Retry-After") != "1" {
					t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
				}
			case a.status != http.StatusOK:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	asking.Wait()
	return refused
}

func ok(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "{}") }

func (o *origin) testAddressLimit(t *testing.T) {
	o.answers(ok)
	if refused := o.flood(t, 1000, "127.0.0.2"); refused == 0 || refused > 799 {
		t.Errorf("%d of 1000 are refused, with a burst of 200", refused)
	}
	if refused := o.flood(t, 50, "127.0.0.3"); refused > 0 {
		t.Errorf("%d requests of another address are refused", refused)
	}
}

func (o *origin) testNetworkLimit(t *testing.T) {
	o.answers(ok)
	for _, network := range []string{"2001:db8:0:a:%x::1", "2001:db8:b:c:1:2:3:%x", "2001:db8::%x"} {
		refused := 0
		for i := range 10 {
			refused += o.flood(t, 100, "127.0.0.5", clientField, fmt.Sprintf(network, i+1))
		}
		if refused == 0 || refused > 799 {
			t.Errorf("%s: %d of 1000 are refused, with a burst of 200", network, refused)
		}
	}
	if refused := o.flood(t, 100, "127.0.0.5", clientField, "2001:db8:b:d::1"); refused > 0 {
		t.Errorf("%d requests of another network are refused", refused)
	}
}

func (o *origin) testKeyLimit(t *testing.T) {
	o.answers(ok)
	key := "Bearer sara_live_" + strings.Repeat("A", 52)
	refused := 0
	for i := range 5 {
		refused += o.flood(t, 100, fmt.Sprint("127.0.1.", i), "Authorization", key)
	}
	if refused == 0 || refused > 399 {
		t.Errorf("%d of 500 are refused, with a burst of 100", refused)
	}
	if refused := o.flood(t, 20, "127.0.1.9", "Authorization",
		strings.ToLower("Bearer ")+strings.Replace(key, "A", "B", 1)[len("Bearer "):]); refused > 0 {
		t.Errorf("%d requests with another key are refused", refused)
	}
}

func (o *origin) testConcurrencyLimit(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 200)
	o.answers(func(replica int, w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		ok(replica, w, r)
	})
	var held sync.WaitGroup
	slow := client("127.0.0.4")
	for range 100 {
		held.Go(func() {
			if a, err := ask(slow, http.MethodGet, o.cdn.base+"/v1/me"); err != nil || a.status != http.StatusOK {
				t.Errorf("%d, %v", a.status, err)
			}
		})
	}
	for range 100 {
		<-arrived
	}
	a, err := ask(client("127.0.0.4"), http.MethodGet, o.cdn.base+"/v1/me")
	if err != nil {
		t.Error(err)
	}
	a.wantEnvelope(t, http.StatusTooManyRequests, "RATE_LIMITED")
	close(release)
	held.Wait()
}
