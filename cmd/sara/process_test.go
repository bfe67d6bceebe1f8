package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
	"sara/proxy/upstream/gscsim"
)

// process is a running sara.
type process struct {
	t       *testing.T
	command *exec.Cmd
	stdout  *bufio.Reader
	stderr  *clitest.Transcript
	ended   bool
}

func start(t *testing.T, binary string, env []string, args ...string) *process {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = append(os.Environ(), env...)
	return startCommand(t, command, t.TempDir())
}

// startCommand starts a command in a folder.
func startCommand(t *testing.T, command *exec.Cmd, folder string) *process {
	t.Helper()
	p := &process{t: t, command: command, stderr: new(clitest.Transcript)}
	command.Dir, command.Stderr = folder, p.stderr
	pipe, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(pipe)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(clitest.Hurry, func() { _ = p.command.Process.Kill() })
	t.Cleanup(func() {
		killer.Stop()
		if !p.ended {
			_ = p.command.Process.Kill()
			_ = p.command.Wait()
		}
	})
	return p
}

// line reads the next line of standard output.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		_ = p.command.Wait()
		p.ended = true
		p.t.Fatalf("standard output ends: %v\n%s", err, p.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns what was left on standard output.
func (p *process) wait() (rest string, err error) {
	p.t.Helper()
	text, readErr := io.ReadAll(p.stdout)
	err = p.command.Wait()
	p.ended = true
	if readErr != nil {
		p.t.Fatal(readErr)
	}
	return string(text), err
}

// stopped sends SIGTERM, and checks that the process exits with status 0.
func (p *process) stopped() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if _, err := p.wait(); err != nil {
		p.t.Errorf("after SIGTERM: %v\n%s", err, p.stderr)
	}
}

// serving starts serve on free ports and returns its addresses.
func serving(t *testing.T, binary string, env []string, args ...string) (p *process, base, admin string) {
	t.Helper()
	p = start(t, binary, env, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	base, ok := strings.CutPrefix(p.line(), "listening on ")
	if !ok {
		t.Fatalf("serve does not print its address: %q", base)
	}
	admin, ok = strings.CutPrefix(p.line(), "admin listening on ")
	if !ok {
		t.Fatalf("serve does not print the address of its admin endpoints: %q", admin)
	}
	return p, base, admin
}

// until polls until the status is the wanted one.
func until(t *testing.T, want int, address string) {
	t.Helper()
	clitest.Poll(t, fmt.Sprintf("GET %s answers %d", address, want), func() bool { return clitest.Get(address, "").Status == want })
}

func testServe(t *testing.T, binary string) {
	people, simulator := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	p, base, admin := serving(t, binary, c.Env)
	clitest.WantStatus(t, 200, admin+"/livez", "")
	clitest.WantStatus(t, 200, admin+"/readyz", "")
	clitest.WantStatus(t, 401, base+"/v1/me", "")
	if said, err := exec.Command(binary, "health", "--url", admin).CombinedOutput(); err != nil || string(said) != "ready\n" {
		t.Errorf("health: %v, %q", err, said)
	}
	if metrics := clitest.WantStatus(t, 200, admin+"/metrics", ""); !strings.Contains(metrics.Body, "sara_build_info") ||
		!strings.Contains(metrics.Body, "go_goroutines") {
		t.Errorf("metrics:\n%.500s", metrics.Body)
	}

	// Changes by commands take effect in the running server.
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.WithProperty()
	key, _ := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	clitest.WantStatus(t, 200, base+"/v1/me", key)

	// A slow request that is in flight at the signal is finished.
	if err := simulator.SetFaults(gscsim.Faults{LatencyMS: 700}); err != nil {
		t.Fatal(err)
	}
	before := simulator.Calls().SearchAnalytics
	slow := make(chan clitest.Answer, 1)
	go func() { slow <- clitest.Get(base+"/v1/properties/shop/queries", key) }()
	clitest.Poll(t, "the slow request reaches Search Console", func() bool { return simulator.Calls().SearchAnalytics > before })
	p.stopped()
	if a := <-slow; a.Err != nil || a.Status != 200 {
		t.Errorf("the request in flight was cut off: %d %v\n%.300s", a.Status, a.Err, a.Body)
	}
	c.Said.WriteString(p.stderr.String())
	for _, want := range []string{"msg=starting", "settings.database_url=sqlite:", `settings.secret_key="set, id `, "msg=stopped"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, p.stderr)
		}
	}
	if log := p.stderr.String(); strings.Index(log, "operation=listQueries") > strings.Index(log, "msg=stopped") {
		t.Errorf("the log reports the stop before the last request is answered:\n%s", log)
	}
	if strings.Contains(p.stderr.String(), key) {
		t.Error("the key is in the log")
	}
	c.KeptSecrets(people)
}

func testDrain(t *testing.T, binary string) {
	c := clitest.New(t, sara)
	key, _ := c.Customer()("late")
	p, base, admin := serving(t, binary, append(slices.Clone(c.Env), "SARA_SHUTDOWN_DELAY=3s", "SARA_LOG_FORMAT=json"))
	p.signal(syscall.SIGTERM)
	until(t, 503, admin+"/readyz")
	clitest.WantStatus(t, 200, admin+"/livez", "")
	clitest.WantStatus(t, 401, base+"/v1/me", "")
	clitest.WantStatus(t, 200, base+"/v1/me", key)
	if _, err := p.wait(); err != nil {
		t.Errorf("after the delay: %v\n%s", err, p.stderr)
	}
	if used := c.Array(clitest.KeyMembers, "key", "list", "ann@example.com")[0]["last_used_at"]; used == nil {
		t.Error("a key that was only used during the delay counts as unused")
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is not JSON: %q", line)
		}
	}
}

func testSecondSignal(t *testing.T, binary string) {
	p, _, admin := serving(t, binary, []string{"SARA_SHUTDOWN_DELAY=1h"})
	p.signal(syscall.SIGTERM) // unlike SIGINT, it is not ignored in processes that started in the background
	until(t, 503, admin+"/readyz")
	p.signal(syscall.SIGTERM)
	_, err := p.wait()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		t.Fatalf("ended with %v, want by a signal", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want by the second signal", err)
	}
}

// The default folder of the database is relative to the working directory.
func testUnusableDefault(t *testing.T, binary string) {
	list := exec.Command(binary, "account", "list")
	list.Dir = filepath.Dir(clitest.New(t, sara).Write("sara-data", ""))
	said, err := list.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != command.ExitError {
		t.Errorf("%v, want status %d", err, command.ExitError)
	}
	for _, want := range []string{"sara: SARA_DATABASE_URL (by default): sqlite:sara-data/sara.db: ",
		"let this user write there, or name another file"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the error lacks %q:\n%s", want, said)
		}
	}
}
