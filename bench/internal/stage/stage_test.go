package stage

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// What a program that fails wrote to standard error is in the error of its end.
func TestFailureSurfaces(t *testing.T) {
	s := &Stage{folder: t.TempDir(), env: os.Environ()}
	p, err := s.launch("sh", "-c", "echo listening; echo the port is taken >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.await("listening on "); err == nil {
		t.Error("a program that ended is taken for one that listens")
	}
	if err := p.stop(); err == nil || !strings.Contains(err.Error(), "the port is taken") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("stop: %v", err)
	}
}

// A program that runs is told to stop and waited for.
func TestStopEndsInOrder(t *testing.T) {
	s := &Stage{folder: t.TempDir(), env: os.Environ()}
	p, err := s.launch("sh", "-c", "trap 'echo stopped >done; exit 0' TERM; echo listening on here; while :; do sleep 0.01; done")
	if err != nil {
		t.Fatal(err)
	}
	if where, err := p.await("listening on "); err != nil || where != "here" {
		t.Errorf("it listens on %q (%v)", where, err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(s.folder + "/done"); err != nil || string(text) != "stopped\n" {
		t.Errorf("it ended without its own doing: %q %v", text, err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var kept tail
	for range 10_000 {
		if _, err := kept.Write([]byte("noise ")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = kept.Write([]byte("the reason"))
	if len(kept) > 64<<10 || !strings.HasSuffix(string(kept), "noise the reason") {
		t.Errorf("%d bytes kept, that end with %q", len(kept), kept[len(kept)-20:])
	}
}

// fake is a Stage with a server that answers as a handler does.
func fake(t *testing.T, handler http.HandlerFunc) *Stage {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &Stage{client: server.Client(), Replicas: []Replica{{URL: server.URL, AdminURL: server.URL}}}
}

func TestDriveCountsEveryAnswer(t *testing.T) {
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Cache", "miss")
		if r.Header.Get("Authorization") != "Bearer right" {
			w.Header().Set("X-Cache", "bypass")
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}
	})
	tally, err := s.Drive(t.Context(), func(yield func(Request) bool) {
		for i := range 100 {
			key := "right"
			if i%4 == 0 {
				key = "wrong"
			}
			if !yield(Request{key, "/v1/me"}) {
				return
			}
		}
	}, 8)
	if err != nil {
		t.Fatal(err)
	}
	if tally.Requests() != 100 || tally.Statuses[200] != 75 || tally.Statuses[401] != 25 || tally.Cache["miss"] != 75 || tally.Cache["bypass"] != 25 {
		t.Errorf("counted %v, %v", tally.Statuses, tally.Cache)
	}
	if len(tally.Examples) != 1 || !strings.Contains(tally.Examples[401], "who are you?") {
		t.Errorf("examples: %v", tally.Examples)
	}
	if p50, p99 := tally.Percentile(.5), tally.Percentile(.99); p50 <= 0 || p99 < p50 {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
}

func TestDriveEndsWhenNobodyAnswers(t *testing.T) {
	s := fake(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	asked := 0
	_, err := s.Drive(t.Context(), func(yield func(Request) bool) {
		for yield(Request{"key", "/v1/me"}) {
			asked++
		}
	}, 2)
	if err == nil {
		t.Errorf("%d requests without an answer are no error", asked)
	}
}
