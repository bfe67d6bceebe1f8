package peer

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
)

// Whichever of the limits is the lowest admits as many requests as it says, of a hundred at once and the first, and names
// itself.
func TestNginxLimitsAreExact(t *testing.T) {
	t.Parallel()
	const asked = 100
	for name, test := range map[string]struct {
		limits Limits
		code   string
	}{
		"minute": {Limits{20, 1000, 1000}, "RATE_LIMITED"},
		"hour":   {Limits{1000, 20, 1000}, "QUOTA_EXCEEDED"},
		"day":    {Limits{1000, 1000, 20}, "QUOTA_EXCEEDED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, Nginx{}, test.limits)
			statuses := make(chan int, asked)
			var askers sync.WaitGroup
			for range asked {
				askers.Go(func() {
					response, body, err := ask(t.Context(), r.Address, path, "sk_right")
					if err != nil {
						t.Error(err)
						return
					}
					statuses <- response.StatusCode
					if response.StatusCode != http.StatusTooManyRequests {
						return
					}
					if !bytes.Contains(body, []byte(test.code)) || response.Header.Get("Retry-After") == "" ||
						response.Header.Get("X-RateLimit-Limit") != "20" || response.Header.Get("X-RateLimit-Remaining") != "0" {
						t.Errorf("a refusal is %s with %v", body, response.Header)
					}
				})
			}
			askers.Wait()
			close(statuses)
			count := map[int]int{}
			for status := range statuses {
				count[status]++
			}
			// A minute's bucket refills: a slow machine may take long enough for another request to fit.
			if extra := count[http.StatusOK] + 1 - 20; extra != 0 && (name != "minute" || extra < 0 || extra > 2) {
				t.Errorf("%d of %d are admitted after the first, not 19", count[http.StatusOK], asked)
			}
			if count[http.StatusOK]+count[http.StatusTooManyRequests] != asked {
				t.Errorf("statuses: %v", count)
			}
		})
	}
}

// A request that one limit refuses is not charged to the others.
func TestNginxChargesAllOrNone(t *testing.T) {
	t.Parallel()
	r := start(t, Nginx{}, Limits{PerMinute: 3, PerHour: 100, PerDay: 100})
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
		t.Errorf("after 3 of 21 were admitted, %s of 100 are left", left)
	}
}
