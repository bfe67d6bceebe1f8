package peer

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const path = "/v1/properties/example.com/summary?to=2026-01-31&from=2026-01-01"

var many = Limits{PerMinute: 1_000_000, PerHour: 1_000_000, PerDay: 1_000_000}

func answer() []byte { return []byte(`{"rows":[` + strings.Repeat(`"abcdefg",`, 800) + `0]}`) }

// start starts a peer and a Redis of its own, both until the end of the test.
func start(t *testing.T, p Peer, limits Limits) *Running {
	t.Helper()
	if err := p.Available(); err != nil {
		t.Skip(err)
	}
	setup := Setup{Folder: t.TempDir(), Redis: startRedis(t), Key: "sk_right", Path: path, Body: answer(), Limits: limits}
	r, err := p.Start(t.Context(), setup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func startRedis(t *testing.T) (address string) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	server, err := launch(t.TempDir(), "redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.stop(); err != nil {
			t.Error(err)
		}
	})
	address = "127.0.0.1:" + strconv.Itoa(port)
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: 1000})
	defer func() { _ = client.Close() }()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return address
}

// ask asks a peer with a key, or with none.
func ask(ctx context.Context, address, path, key string) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}
