package peer

import (
	"net/http"
	"testing"
)

// Each of the three limits holds for requests that come one after the other.
func TestHAProxyLimits(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Limits{"minute": {20, 1000, 1000}, "hour": {1000, 20, 1000}, "day": {1000, 1000, 20}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, HAProxy{}, limits) // which takes one
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
