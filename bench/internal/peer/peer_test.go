package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/bench/internal/subprocess"
)

const path = "/v1/properties/example.com/summary?to=2026-01-31&from=2026-01-01"

var many = Limits{PerMinute: 1_000_000, PerHour: 1_000_000, PerDay: 1_000_000}

func answer() []byte { return []byte(`{"rows":[` + strings.Repeat(`"abcdefg",`, 800) + `0]}`) }

// each runs a test against every peer that is installed.
func each(t *testing.T, test func(*testing.T, *Running)) {
	t.Parallel()
	for _, p := range All() {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			test(t, start(t, p, many))
		})
	}
}

// start starts a peer with its own Redis, both until the end of the test.
func start(t *testing.T, p Peer, limits Limits) *Running {
	t.Helper()
	r := begin(t, p, limits)
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// begin is start without the stop.
func begin(t *testing.T, p Peer, limits Limits) *Running {
	t.Helper()
	if err := p.Available(); err != nil {
		t.Skip(err)
	}
	r, err := p.Start(t.Context(), newSetup(t, limits))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newSetup(t *testing.T, limits Limits) Setup {
	t.Helper()
	return Setup{Folder: t.TempDir(), Redis: startRedis(t), Key: "sk_right", Path: path, Body: answer(), Limits: limits, Log: os.DevNull}
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
	server, err := subprocess.Start(subprocess.Config{Program: "redis-server", Folder: t.TempDir(),
		Args: []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
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

// await checks a condition until it holds, or until patience ends.
func await(t *testing.T, what string, there func() (bool, error)) {
	t.Helper()
	again, end := time.NewTicker(10*time.Millisecond), time.NewTimer(patience)
	defer again.Stop()
	defer end.Stop()
	for {
		done, err := there()
		switch {
		case err != nil:
			t.Fatal(err)
		case done:
			return
		}
		select {
		case <-again.C:
		case <-end.C:
			t.Fatalf("%s is not there after %v", what, patience)
		}
	}
}

// ask sends a GET, with a key unless it is empty.
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

// A hit is the exact answer, for any order and encoding of the same parameters.
func TestHit(t *testing.T) { each(t, testHit) }

func testHit(t *testing.T, r *Running) {
	await(t, "the answer in the cache", func() (bool, error) { // HAProxy may store it a moment after it has sent it
		response, _, err := ask(t.Context(), r.Address, path, "sk_right")
		return err == nil && response.Header.Get("X-Cache") == "HIT", err
	})
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
	if got := response.Header.Get("X-Cache"); got == "HIT" {
		t.Error("the first request with other parameters is a hit")
	}
}

// Each request is a line of JSON in the log, and nothing else is.
func TestLog(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			if err := p.Available(); err != nil {
				t.Skip(err)
			}
			s := newSetup(t, many)
			s.Log = filepath.Join(s.Folder, "requests")
			r, err := p.Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			await(t, "a line", func() (bool, error) { // HAProxy may write it a moment after the answer
				text, err := os.ReadFile(s.Log)
				return bytes.Contains(text, []byte("\n")), err
			})
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(s.Log)
			var line struct {
				Status  int
				Account string
			}
			if err = errors.Join(err, json.Unmarshal(text, &line)); err != nil || line.Status != http.StatusOK || line.Account != account {
				t.Errorf("the log of one request is %q (%v)", text, err)
			}
		})
	}
}

func TestKeyIsRequired(t *testing.T) { each(t, testKeyIsRequired) }

func testKeyIsRequired(t *testing.T, r *Running) {
	for name, key := range map[string]string{"without a key": "", "with a wrong key": "sk_wrong"} {
		response, body, err := ask(t.Context(), r.Address, path, key)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusUnauthorized || bytes.Contains(body, []byte("rows")) {
			t.Errorf("%s: %s %s", name, response.Status, body)
		}
	}
}

// The processes of a running peer exist, and are gone after Stop.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			r := begin(t, p, many)
			if len(r.PIDs) == 0 {
				t.Error("no PIDs")
			}
			for _, pid := range r.PIDs {
				if err := syscall.Kill(pid, 0); err != nil {
					t.Errorf("process %d: %v", pid, err)
				}
			}
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
			for _, pid := range r.PIDs {
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("process %d after the stop: %v", pid, err)
				}
			}
			if _, err := net.Dial("tcp", r.Address); err == nil {
				t.Errorf("%s still accepts connections", r.Address)
			}
		})
	}
}
