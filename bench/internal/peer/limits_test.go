package peer

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// The lowest of the limits admits exactly its number of requests: first one, and then some of a hundred concurrent ones.
func TestLimitsInRedisAreExact(t *testing.T) {
	t.Parallel()
	for _, p := range []Peer{Nginx{}, HAProxy{Redis: true}} {
		t.Run(p.Name(), func(t *testing.T) { testExact(t, p) })
	}
}

func testExact(t *testing.T, p Peer) {
	for name, limits := range map[string]Limits{"minute": {20, 1000, 1000}, "hour": {1000, 20, 1000}, "day": {1000, 1000, 20}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, p, limits)
			admitted, refused := burst(t, r.Address)
			// The per-minute bucket refills: on a slow machine, another request may fit.
			if extra := admitted + 1 - 20; extra < 0 || extra > 0 && name != "minute" || extra > 2 {
				t.Errorf("%d of %d are admitted after the first, want 19", admitted, admitted+refused)
			}
		})
	}
}

// burst sends a hundred concurrent requests.
func burst(t *testing.T, address string) (admitted, refused int) {
	var group sync.WaitGroup
	var ok, no atomic.Int32
	for range 100 {
		group.Go(func() {
			response, body, err := ask(t.Context(), address, path, "sk_right")
			switch {
			case err != nil:
				t.Error(err)
			case response.StatusCode == http.StatusOK:
				ok.Add(1)
			case response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") != "":
				no.Add(1)
			default:
				t.Errorf("%s, %v: %s", response.Status, response.Header, body)
			}
		})
	}
	group.Wait()
	return int(ok.Load()), int(no.Load())
}

// A request that one limit refuses is not charged to the others.
func TestLimitsInRedisChargeAllOrNone(t *testing.T) {
	t.Parallel()
	for _, p := range []Peer{Nginx{}, HAProxy{Redis: true}} {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			r := start(t, p, Limits{PerMinute: 3, PerHour: 100, PerDay: 100})
			left := ""
			for range 20 {
				response, _, err := ask(t.Context(), r.Address, path, "sk_right")
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode == http.StatusOK {
					left = response.Header.Get("X-RateLimit-Remaining")
				}
			}
			if left != "97" {
				t.Errorf("after 3 of 21 requests were admitted, %s of 100 are left, want 97", left)
			}
		})
	}
}

// Each of the three limits holds for sequential requests.
func TestHAProxyAloneLimitsOneByOne(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Limits{"minute": {20, 1000, 1000}, "hour": {1000, 20, 1000}, "day": {1000, 1000, 20}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, HAProxy{}, limits) // which uses one request
			for i := range 30 {
				response, _, err := ask(t.Context(), r.Address, path, "sk_right")
				if err != nil {
					t.Fatal(err)
				}
				want := http.StatusOK
				if i >= 19 {
					want = http.StatusTooManyRequests
				}
				if response.StatusCode != want || want == http.StatusTooManyRequests && response.Header.Get("Retry-After") == "" {
					t.Errorf("request %d: %s, %v", i, response.Status, response.Header)
				}
			}
		})
	}
}
