package stage

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
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
	command *exec.Cmd // a shell that guards the program
	alive   io.Closer // the shell ends the program when this is closed
	stdout  *bufio.Reader
	stderr  tail // read only once it has ended
}

// guard runs a program until standard input ends, which it does with this process, however that ends. The shell lets go of
// its own output so that the program's ends with the program, whose pid is the first line of it.
const guard = `sh -c 'echo $$; exec "$@"' sh "$@" & program=$!; exec >/dev/null 2>&1; cat; kill -TERM $program; wait $program`

// launch starts a program with the stage's environment.
func (s *Stage) launch(program string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(program)}
	return p, s.start(p, &p.stderr, program, args)
}

func (s *Stage) start(p *process, stderr io.Writer, program string, args []string) error {
	p.command = exec.Command("sh", append([]string{"-c", guard, "sh", program}, args...)...)
	p.command.Env, p.command.Dir, p.command.Stderr = s.env, s.folder, stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for us to handle
	alive, err := p.command.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.alive, p.stdout = alive, bufio.NewReader(stdout)
	s.processes = append(s.processes, p)
	return p.readPID()
}

func (p *process) readPID() error {
	line, err := p.stdout.ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		return fmt.Errorf("the pid of %s: %w", p.name, err)
	}
	return nil
}

// await reads lines until one holds the text, and returns what follows it in its line.
func (p *process) await(text string) (rest string, err error) {
	killer := time.AfterFunc(patience, p.kill)
	defer killer.Stop()
	for {
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("%s ended, or took over %v, before it said %q: %w", p.name, patience, text, err)
		}
		if _, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), text); ok {
			return rest, nil
		}
	}
}

func (p *process) kill() { _ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) }

// stop ends the program in order and waits for it. If it did not end well, the error has what it wrote last.
func (p *process) stop() error {
	killer := time.AfterFunc(patience, p.kill)
	defer killer.Stop()
	_ = p.alive.Close()
	_, _ = io.Copy(io.Discard, p.stdout)
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, err, p.stderr)
	}
	return nil
}

// tail keeps the last of what is written to it.
type tail []byte

func (t *tail) Write(text []byte) (int, error) {
	const most = 16 << 10
	*t = append(*t, text...)
	if extra := len(*t) - most; extra > most {
		*t = bytes.Clone((*t)[extra:])
	}
	return len(text), nil
}
