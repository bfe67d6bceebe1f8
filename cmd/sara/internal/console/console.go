// Package console is how commands talk to people and to programs: tables and JSON on standard output, hints about what to run
// next on standard error.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Console is what a command has besides its flags.
type Console struct {
	Stdout, Stderr io.Writer
	Now            func() time.Time

	Command string // how hints call the program
	Flags   string // flags that hints repeat
}

// ProgramName is the name of the program.
const ProgramName = "sara"

// CommandName returns the command to print in hints for a program that was called by that name: the path, or "sara" when it
// was found in PATH or run by go run.
func CommandName(called string) string {
	if !strings.Contains(called, "/") || strings.Contains(called, "/go-build") {
		return ProgramName
	}
	return Quote(called)
}

// Next prints a hint for people: a sentence, and command lines that can be pasted. With --json it prints nothing.
func (c *Console) Next(o Output, what string, commands ...string) {
	if o.JSON {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nNext: %s\n\n", what)
	for _, command := range commands {
		fmt.Fprintf(&text, "  %s%s%s\n", c.Command, strings.TrimPrefix(command, ProgramName), c.Flags)
	}
	_, _ = fmt.Fprint(c.Stderr, text.String()) // the command has succeeded anyway
}

// CommandLine returns a command line of the program, quoted for a shell. Words in capitals are placeholders.
func CommandLine(args ...string) string {
	var line strings.Builder
	line.WriteString(ProgramName)
	for _, arg := range args {
		line.WriteString(" " + Quote(arg))
	}
	return line.String()
}

// Quote quotes a word for a shell, if it needs that.
func Quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
