package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sara/proxy/upstream/gscsim"
)

// process is a running sara.
type process struct {
	t       *testing.T
	command *exec.Cmd
	stdout  *bufio.Reader
	stderr  *transcript
	ended   bool
}

// transcript is the standard error of a process.
type transcript struct {
	mu      sync.Mutex // guards what follows
	text    bytes.Buffer
	awaited string
	then    func()
}

// when calls then once the text has been written.
func (s *transcript) when(text string, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited, s.then = text, then
	s.look()
}

// Write implements io.Writer.
func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	s.look()
	return n, err
}

func (s *transcript) look() {
	if s.then != nil && bytes.Contains(s.text.Bytes(), []byte(s.awaited)) {
		s.then()
		s.then = nil
	}
}

// String returns all that was written so far.
func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// hurry is the timeout of each step: far longer than a step takes, far shorter than the timeout of the test.
const hurry = 2 * time.Minute

func start(t *testing.T, binary string, env []string, args ...string) *process {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = append(os.Environ(), env...)
	return startCommand(t, command, t.TempDir())
}

// startCommand starts a command in a folder.
func startCommand(t *testing.T, command *exec.Cmd, folder string) *process {
	t.Helper()
	p := &process{t: t, command: command, stderr: new(transcript)}
	command.Dir, command.Stderr = folder, p.stderr
	pipe, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(pipe)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(hurry, func() { _ = p.command.Process.Kill() })
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

// answer is a response, or the error instead.
type answer struct {
	status int
	body   string
	err    error
}

func get(address, key string) answer {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return answer{err: err}
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{Timeout: hurry, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body), errors.Join(err, response.Body.Close())}
}

func wantStatus(t *testing.T, want int, address, key string) answer {
	t.Helper()
	a := get(address, key)
	if a.err != nil || a.status != want {
		t.Errorf("GET %s: %d %v, want %d\n%.300s", address, a.status, a.err, want, a.body)
	}
	return a
}

// poll waits until done reports true. The pauses grow from 1 ms to 50 ms: without them, it would take up the processor that the
// process needs to get there.
func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(hurry)
	for pause := time.Millisecond; !done(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-late:
			t.Fatalf("%s: not within %v", what, hurry)
		}
	}
}

// until polls until the status is the wanted one.
func until(t *testing.T, want int, address string) {
	t.Helper()
	poll(t, fmt.Sprintf("GET %s answers %d", address, want), func() bool { return get(address, "").status == want })
}

func testServe(t *testing.T, binary string) {
	people, simulator := simulate(t)
	c := newCLI(t).against(people)
	p, base, admin := serving(t, binary, c.env)
	wantStatus(t, 200, admin+"/livez", "")
	wantStatus(t, 200, admin+"/readyz", "")
	wantStatus(t, 401, base+"/v1/me", "")
	if said, err := exec.Command(binary, "health", "--url", admin).CombinedOutput(); err != nil || string(said) != "ready\n" {
		t.Errorf("health: %v, %q", err, said)
	}
	if metrics := wantStatus(t, 200, admin+"/metrics", ""); !strings.Contains(metrics.body, "sara_build_info") || !strings.Contains(metrics.body, "go_goroutines") {
		t.Errorf("metrics:\n%.500s", metrics.body)
	}

	// Changes by commands take effect in the running server.
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.withProperty()
	key, _ := c.object(keyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	wantStatus(t, 200, base+"/v1/me", key)

	// A slow request that is in flight at the signal is finished.
	if err := simulator.SetFaults(gscsim.Faults{LatencyMS: 700}); err != nil {
		t.Fatal(err)
	}
	before := simulator.Calls().SearchAnalytics
	slow := make(chan answer, 1)
	go func() { slow <- get(base+"/v1/properties/shop/queries", key) }()
	poll(t, "the slow request reaches Search Console", func() bool { return simulator.Calls().SearchAnalytics > before })
	p.stopped()
	if a := <-slow; a.err != nil || a.status != 200 {
		t.Errorf("the request in flight was cut off: %d %v\n%.300s", a.status, a.err, a.body)
	}
	c.said.WriteString(p.stderr.String())
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
	c.keptSecrets(people)
}

func testDrain(t *testing.T, binary string) {
	p, base, admin := serving(t, binary, []string{"SARA_SHUTDOWN_DELAY=1s", "SARA_LOG_FORMAT=json"})
	p.signal(syscall.SIGTERM)
	until(t, 503, admin+"/readyz")
	wantStatus(t, 200, admin+"/livez", "")
	wantStatus(t, 401, base+"/v1/me", "")
	if _, err := p.wait(); err != nil {
		t.Errorf("after the delay: %v\n%s", err, p.stderr)
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
