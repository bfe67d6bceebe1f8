package subprocess

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func shell(t *testing.T, folder, script string) *Process {
	t.Helper()
	p, err := Start(Config{Program: "sh", Args: []string{"-c", script}, Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFailureIsInTheErrorOfStop(t *testing.T) {
	p := shell(t, t.TempDir(), "echo listening; echo the port is taken >&2; exit 3")
	if _, err := p.Await("listening on "); err == nil {
		t.Error("no error, although the program ended")
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "the port is taken") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("stop: %v", err)
	}
}

func TestStopTerminatesAndWaits(t *testing.T) {
	folder := t.TempDir()
	p := shell(t, folder, "trap 'echo stopped >done; exit 0' TERM; echo listening on here; while :; do sleep 0.01; done")
	if where, err := p.Await("listening on "); err != nil || where != "here" {
		t.Errorf("it listens on %q (%v)", where, err)
	}
	if pids, err := p.PIDs(); err != nil || pids[0] != p.PID {
		t.Errorf("PIDs %v (%v), want %d first", pids, err, p.PID)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "done")); err != nil || string(text) != "stopped\n" {
		t.Errorf("the program did not stop by itself: %q %v", text, err)
	}
	select {
	case <-p.Ended:
	default:
		t.Error("Ended is open after Stop")
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
		t.Errorf("%d bytes kept, ending in %q", len(kept), kept[len(kept)-20:])
	}
}
