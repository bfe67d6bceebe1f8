package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
)

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there is no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// The command opens a browser, which is a script here, and asks on a terminal which sites to add. No token is on a command line.
func TestConnectOnATerminal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	binary := program(t)
	c, people, issued := clitest.NewConsentCLI(t, sara)
	script, opened := c.Path("xdg-open"), c.Path("opened")
	c.Write("xdg-open", "#!/bin/sh\necho \"$@\" > "+opened+".part && mv "+opened+".part "+opened+"\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	person, program := openTerminal(t)
	command := exec.Command(binary, "connection", "connect", "Web", "--client", c.Path("client.json"))
	command.Env = append(os.Environ(), append(c.Env, "PATH="+filepath.Dir(script)+":"+os.Getenv("PATH"))...)
	command.Stdin = program
	p := startCommand(t, command, t.TempDir())

	address := clitest.AddressIn(t, p.stderr)
	clitest.Poll(t, "a browser opens", func() bool { _, err := os.Stat(opened); return err == nil })
	if text, err := os.ReadFile(opened); err != nil || strings.TrimSpace(string(text)) != address {
		t.Errorf("the browser opens %q, want %q (%v)", text, address, err)
	}
	clitest.OpenConsent(t, address).As(demo.AddressOf(demo.PortfolioConnection)).Submit(t, "allow")
	for _, step := range []struct{ asked, answer string }{{"none): ", "7\n"}, {"range of them\n", ""}, {"none): ", "1,3-4\n"}} {
		clitest.Poll(t, step.asked, func() bool { return strings.Contains(p.stderr.String(), step.asked) })
		if _, err := io.WriteString(person, step.answer); err != nil {
			t.Fatal(err)
		}
	}
	lines := commandLines(t, command.Process.Pid)
	table, err := p.wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, p.stderr)
	}
	if !strings.Contains(p.stderr.String(), "reads 6 sites.") || !strings.Contains(p.stderr.String(), `"7" is neither a number of 1 to 6`) ||
		strings.Count(table, "\nadded") != 3 {
		t.Errorf("it prints:\n%s%s", p.stderr, table)
	}
	if list := c.Array(clitest.PropertyMembers, "property", "list"); len(list) != 3 {
		t.Errorf("the properties are %v", list)
	}
	secrets := issued.Secrets()
	secrets["the secret of the client"] = people.Client.Secret
	e := clitest.Evidence{"a command line": []byte(lines), "the output": []byte(p.stderr.String() + table)}
	if leaks := e.Leaks(secrets); len(leaks) > 0 {
		t.Error(strings.Join(leaks, "\n"))
	}
}
