// Package console is how commands talk to people and to programs: tables and JSON on standard output, hints about what to run
// next on standard error.
package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Console is what a command has besides its flags.
type Console struct {
	Stdin  io.Reader // for answers, if it is a terminal, and for ReadFile
	Stdout io.Writer // for data as well, so it is not one of Text
	Stderr io.Writer // of Text
	Now    func() time.Time

	Command string // how hints call the program
	Flags   string // flags that hints repeat
	Version string // of the program
}

// ProgramName is the name of the program.
const ProgramName = "sara"

// CommandName returns the command to print in hints for a program that was called by that name, which a script that wraps it may
// have set to its own. Where go run built the program, that is "sara".
func CommandName(called string) string {
	if strings.Contains(called, "/go-build") {
		return ProgramName
	}
	return Quote(called)
}

// standardInput is the name under which ReadFile reads standard input. A program cannot open /dev/stdin if another user opened the
// file or the pipe behind it.
const standardInput = "-"

// ReadFile reads a file that a flag names, or standard input. It refuses one that is much longer than any of credentials or page groups, such
// as a device or another file than was meant, before that fills the memory.
func (c *Console) ReadFile(ctx context.Context, path string) ([]byte, error) {
	return interruptible(ctx, func() ([]byte, error) { return c.readFile(path) })
}

func (c *Console) readFile(path string) ([]byte, error) {
	if path == standardInput {
		return readAll(c.Stdin, "standard input")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return readAll(file, path)
}

// interruptible returns what read returns, or the error of ctx if that ends first. The read of a terminal or a pipe cannot be ended, and is
// left to the end of the process.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func readAll(r io.Reader, name string) ([]byte, error) {
	const longest = 16 << 20
	text, err := io.ReadAll(io.LimitReader(r, longest+1))
	if err == nil && len(text) > longest {
		err = fmt.Errorf("%s has more than %d bytes: name another file", name, longest)
	}
	return text, err
}

// Note prints a line for people. Where that fails, an error would be printed to the same place, so the command goes on.
func (c *Console) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Stderr, ProgramName+": "+format+"\n", args...)
}

// Next prints a hint for people: a sentence, and command lines that can be pasted. With --json it prints nothing.
func (c *Console) Next(o Output, what string, commands ...string) {
	if o.JSON {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nNext: %s\n\n", what)
	for _, command := range commands {
		text.WriteString("  " + c.Called(command) + "\n")
	}
	_, _ = fmt.Fprint(c.Stderr, text.String()) // the command has succeeded anyway
}

// Called returns a command line so that it can be pasted: with the name by which the program was called, and for the same database.
func (c *Console) Called(command string) string {
	return c.Command + strings.TrimPrefix(command, ProgramName) + c.Flags
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

// Confirm asks a person to type a word before something that cannot be undone. Without a terminal it is an error that names --yes.
func (c *Console) Confirm(ctx context.Context, question, word string) error {
	if !c.IsInteractive() {
		return fmt.Errorf("%s There is no terminal to ask on: repeat the command with --yes", question)
	}
	return c.confirm(ctx, question, word)
}

// ConfirmOverwrite asks a person before something is overwritten. Without a terminal it is an error that names the flag.
func (c *Console) ConfirmOverwrite(ctx context.Context, question, flag string) error {
	if !c.IsInteractive() {
		return fmt.Errorf("%s Nothing was written: repeat the command with %s", question, flag)
	}
	return c.confirm(ctx, question, "overwrite")
}

func (c *Console) confirm(ctx context.Context, question, word string) error {
	answer, err := c.ask(ctx, bufio.NewReader(c.Stdin), question+"\nType "+word+" to confirm: ")
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != word {
		return errors.New("nothing was changed: the answer is not " + word)
	}
	return nil
}

// ask prints a question and reads a line. When ctx ends first, it ends the line of the question and returns the error of ctx.
func (c *Console) ask(ctx context.Context, input *bufio.Reader, question string) (answer string, err error) {
	if _, err := fmt.Fprint(c.Stderr, question); err != nil {
		return "", err
	}
	answer, err = interruptible(ctx, func() (string, error) { return input.ReadString('\n') })
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(c.Stderr) // an error would go to the same terminal
	}
	return answer, err
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := Raw(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
