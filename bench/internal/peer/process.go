package peer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs until it is told to stop.
type process struct {
	name    string
	pid     int
	ended   chan struct{} // closed when the program has ended, with all that it started
	command *exec.Cmd     // a shell that guards the program
	alive   io.Closer     // the shell ends the program when this is closed
	said    string        // the file of what the program writes
}

// guard tells the program's pid and runs it until standard input ends, which it does with this process, however that ends.
// The shell lets go of its own output so that the pipe ends with the program. To end by the signal is to end well.
const guard = `"$@" & program=$!; echo $program; exec >/dev/null 2>&1; cat
kill -TERM $program; wait $program; status=$?; [ $status = 143 ] || exit $status`

// launch starts a program in a folder, where a file gets what it writes to standard error.
func launch(folder, program string, args ...string) (_ *process, err error) {
	p := &process{name: filepath.Base(program), ended: make(chan struct{}), said: filepath.Join(folder, "stderr.log")}
	said, err := os.Create(p.said)
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close() }() // the program has its own
	p.command = exec.Command("sh", append([]string{"-c", guard, "sh", program}, args...)...)
	p.command.Dir, p.command.Stderr = folder, said
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for us to handle
	if p.alive, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		close(p.ended)
	}()
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		_ = p.stop()
		return nil, fmt.Errorf("read the pid of %s: %w", p.name, err)
	}
	return p, nil
}

// pids returns the pid of the program and those of the processes that it has started.
func (p *process) pids() ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	pids := []int{p.pid}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // a process that has ended since
		}
		// The name, in parentheses, may hold anything. Behind it are the state and the parent's pid.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(p.pid) {
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

// stop ends the program in order and waits for it. If it did not end well, the error has what it wrote last.
func (p *process) stop() error {
	killer := time.AfterFunc(patience, func() { _ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) })
	defer killer.Stop()
	_ = p.alive.Close()
	<-p.ended
	if err := p.command.Wait(); err != nil {
		said, _ := os.ReadFile(p.said)
		const most = 4 << 10
		return fmt.Errorf("%s: %w\n%s", p.name, err, bytes.TrimSpace(said[max(0, len(said)-most):]))
	}
	return nil
}
