package clitest

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// Hurry is the timeout of each step: far longer than a step takes, far shorter than the timeout of the test.
const Hurry = 2 * time.Minute

// Answer is a response, or the error instead.
type Answer struct {
	Status int
	Body   string
	Err    error
}

// Get sends a request with a key, or without one if it is empty.
func Get(address, key string) Answer {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return Answer{Err: err}
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{Timeout: Hurry, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return Answer{Err: err}
	}
	body, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, string(body), errors.Join(err, response.Body.Close())}
}

// WantStatus does so, and checks the status.
func WantStatus(t *testing.T, want int, address, key string) Answer {
	t.Helper()
	a := Get(address, key)
	if a.Err != nil || a.Status != want {
		t.Errorf("GET %s: %d %v, want %d\n%.300s", address, a.Status, a.Err, want, a.Body)
	}
	return a
}

// Poll waits until done reports true. The pauses grow from 1 ms to 50 ms: without them, it would take up the processor that the
// process needs to get there.
func Poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(Hurry)
	for pause := time.Millisecond; !done(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-late:
			t.Fatalf("%s: not within %v", what, Hurry)
		}
	}
}
