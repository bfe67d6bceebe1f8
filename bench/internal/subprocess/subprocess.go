// Package subprocess runs servers as child processes that end when this process does, even if it is killed.
package subprocess

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience limits starting and stopping, with room for a slow and busy machine.
const patience = 60 * time.Second

// A Config describes the program to run.
type Config struct {
	Program string
	Args    []string
	Folder  string   // working directory
	Env     []string // nil for this process's environment
	Stderr  *os.File // nil to keep the last lines for the error of Stop
	Cgroup  string   // file to which the program writes its PID before it starts; empty for none
	// Usual gives the program the usual scheduling policy if this process has another one. It requires root, and chrt from
	// util-linux.
	Usual bool
}

// A Process is a running program. Its methods belong to one goroutine.
type Process struct {
	PID   int
	Ended <-chan struct{} // closed when the program and all processes that it started have ended

	name    string
	command *exec.Cmd     // a shell that guards the program
	stdin   io.Closer     // closing it makes the shell terminate the program
	lines   <-chan string // of standard output; those beyond a buffer are dropped
	stderr  tail          // to be read only after the end
}

// guard puts the program into its cgroup, prints the program's PID, and terminates the program when standard input ends. The kernel
// closes standard input when this process ends. The shell closes its own output, so the pipe ends with the program. Ending on
// SIGTERM counts as success.
const guard = `sh -c 'echo $$ >>"$0"; echo $$; exec "$@"' "$@" & program=$!; exec >/dev/null 2>&1; cat
kill -TERM $program; wait $program; status=$?; [ $status = 143 ] || exit $status`

// Start starts a program.
func Start(c Config) (*Process, error) {
	p := &Process{name: filepath.Base(c.Program)}
	args := []string{"-c", guard, "sh", cmp.Or(c.Cgroup, os.DevNull)}
	if c.Usual {
		args = append(args, "chrt", "--other", "0")
	}
	p.command = exec.Command("sh", slices.Concat(args, []string{c.Program}, c.Args)...)
	p.command.Env, p.command.Dir, p.command.Stderr = c.Env, c.Folder, &p.stderr
	if c.Stderr != nil {
		p.command.Stderr = c.Stderr
	}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for this process to handle
	stdin, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.stdin = stdin
	p.lines, p.Ended = readLines(stdout)
	line, err := p.Await("")
	if err == nil {
		p.PID, err = strconv.Atoi(line)
	}
	if err != nil {
		_ = p.Stop()
		return nil, fmt.Errorf("read the PID of %s: %w", p.name, err)
	}
	return p, nil
}

// readLines reads lines until the end.
func readLines(output io.Reader) (<-chan string, <-chan struct{}) {
	const kept = 256 // more than a server prints while it starts
	lines, ended := make(chan string, kept), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(lines)
		reader := bufio.NewReader(output)
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case lines <- strings.TrimSuffix(line, "\n"):
			default:
			}
		}
	}()
	return lines, ended
}

// Await waits for a line with a text, and returns the rest of that line.
func (p *Process) Await(text string) (rest string, err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return "", fmt.Errorf("%s ended before it printed %q", p.name, text)
			}
			if _, rest, ok := strings.Cut(line, text); ok {
				return rest, nil
			}
		case <-late.C:
			return "", fmt.Errorf("%s did not print %q within %v", p.name, text, patience)
		}
	}
}

// PIDs returns the PIDs of the program and of the processes it has started.
func (p *Process) PIDs() ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	pids := []int{p.PID}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended since
		}
		// The name, in parentheses, may contain anything. The state and the parent's PID follow it.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(p.PID) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Stop terminates the program and waits for it. If the program failed, the error has its last output.
func (p *Process) Stop() error {
	killer := time.AfterFunc(patience, func() { _ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) })
	defer killer.Stop()
	_ = p.stdin.Close()
	<-p.Ended
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, err, bytes.TrimSpace(p.stderr))
	}
	return nil
}

// tail keeps the end of the output.
type tail []byte

func (t *tail) Write(text []byte) (int, error) {
	const most = 16 << 10
	*t = append(*t, text...)
	if extra := len(*t) - most; extra > most {
		*t = bytes.Clone((*t)[extra:])
	}
	return len(text), nil
}
