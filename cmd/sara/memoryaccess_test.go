package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"sara/cmd/sara/internal/clitest"
)

// nobodyID is the user, other than root, that runs sara and looks at it: root can read the memory of every process.
const nobodyID = 65534

// asUser lets a command run as a user that is not root. A test that runs as such a user changes nothing.
func asUser(command *exec.Cmd) *exec.Cmd {
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	}
	return command
}

// publicCopy copies a program to a folder that every user can read.
func publicCopy(t *testing.T, program string) (path string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "sara")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path = filepath.Join(folder, "sara")
	if out, err := exec.Command("cp", "--dereference", program, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, public := range []string{folder, path} {
		if err := os.Chmod(public, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Another process of the same user cannot read the environment and the memory of a server, and a crash leaves no core dump, even if
// the limit of the shell that started it allows one.
func testMemoryIsProtected(t *testing.T, binary string) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can protect a process from its user")
	}
	const secret = "SARA_REDIS_URL=redis://:marked-in-the-environment@127.0.0.1:1"
	program := publicCopy(t, binary)
	folder := filepath.Dir(program)
	command := asUser(exec.Command("sh", "-c", `ulimit -c unlimited; exec "$0" serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0`, program))
	command.Env = append(os.Environ(), "GOTRACEBACK=crash", "SARA_COLLECT=off", "SARA_INSPECT=off", secret)
	p := startCommand(t, command, folder)
	p.line()
	admin, _ := strings.CutPrefix(p.line(), "admin listening on ")

	own := asUser(exec.Command("cat", "/proc/self/environ"))
	own.Env = []string{secret}
	if text, err := own.CombinedOutput(); err != nil || !strings.Contains(string(text), secret) {
		t.Fatalf("a process cannot read an environment at all: %v %s", err, text)
	}
	for _, file := range []string{"environ", "mem", "maps"} {
		path := fmt.Sprintf("/proc/%d/%s", p.command.Process.Pid, file)
		if text, err := asUser(exec.Command("head", "-c", "100", path)).CombinedOutput(); err == nil || !strings.Contains(string(text), "denied") {
			t.Errorf("another process reads %s: %v %q", path, err, text)
		}
	}
	if metrics := clitest.WantStatus(t, 200, admin+"/metrics", ""); !strings.Contains(metrics.Body, "process_open_fds") ||
		!strings.Contains(metrics.Body, "process_resident_memory_bytes") {
		t.Errorf("the metrics of the process are missing:\n%.300s", metrics.Body)
	}
	p.signal(syscall.SIGQUIT)
	_, _ = p.wait() // the signal's status
	if !strings.Contains(p.stderr.String(), "SIGQUIT") || strings.Contains(p.stderr.String(), "marked-in-the-environment") {
		t.Errorf("the crash:\n%s", p.stderr)
	}
	if cores, err := filepath.Glob(filepath.Join(folder, "*core*")); err != nil || len(cores) > 0 {
		t.Errorf("%v, %v is left", err, cores)
	}
}
