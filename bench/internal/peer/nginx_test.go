package peer

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Whichever of the limits is the lowest admits as many requests as it says, of a hundred at once, and names itself.
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
			if extra := count[http.StatusOK] - 20; extra != 0 && (name != "minute" || extra < 0 || extra > 2) {
				t.Errorf("%d of %d are admitted, not 20", count[http.StatusOK], asked)
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
	r := start(t, Nginx{}, Limits{PerMinute: 2, PerHour: 100, PerDay: 100})
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
	if left != "98" {
		t.Errorf("after 2 of 20 were admitted, %s of 100 are left", left)
	}
}

func TestNginxHit(t *testing.T) {
	t.Parallel()
	r := start(t, Nginx{}, many)
	for _, url := range []string{path, "/v1/properties/example.com/summary?from=2026-01-01&to=2026%2D01%2D31"} {
		response, body, err := ask(t.Context(), r.Address, url, "sk_right")
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK || response.Header.Get("X-Cache") != "HIT" || !bytes.Equal(body, answer()) {
			t.Errorf("GET %s: %s, %s, %d bytes", url, response.Status, response.Header.Get("X-Cache"), len(body))
		}
	}
	response, _, err := ask(t.Context(), r.Address, path+"&limit=1", "sk_right")
	if err != nil {
		t.Fatal(err)
	}
	if got := response.Header.Get("X-Cache"); got != "MISS" {
		t.Errorf("the first of other parameters is a %q", got)
	}
}

func TestNginxWants(t *testing.T) {
	t.Parallel()
	r := start(t, Nginx{}, many)
	for name, key := range map[string]string{"a key": "", "a key that it knows": "sk_wrong"} {
		response, body, err := ask(t.Context(), r.Address, path, key)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusUnauthorized || bytes.Contains(body, []byte("rows")) {
			t.Errorf("without %s: %s %s", name, response.Status, body)
		}
	}
}

// The request that a load driver sends is a whole one, and is answered as often as it is sent over one connection.
func TestNginxRequestBytes(t *testing.T) {
	t.Parallel()
	r := start(t, Nginx{}, many)
	conn, err := net.Dial("tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	for range 3 {
		if _, err := conn.Write(r.Request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(body, answer()) {
			t.Errorf("%s, %d bytes, %v", response.Status, len(body), err)
		}
	}
}
