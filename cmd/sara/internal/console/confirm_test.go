package console

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestConfirmNeedsTheWord(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"Acme\n": "", "Acme\r\n": "", "Acme": "", // the last ends with the input
		"": "nothing was changed: the answer is not Acme", "yes\n": "nothing was changed: the answer is not Acme",
		"acme\n": "nothing was changed: the answer is not Acme",
	} {
		var said strings.Builder
		c := Console{Stdin: strings.NewReader(answer), Stderr: &said}
		err := c.confirm(t.Context(), "This removes it.", "Acme")
		if got := errorText(err); got != want {
			t.Errorf("the answer %q: %q, want %q", answer, got, want)
		}
		if said.String() != "This removes it.\nType Acme to confirm: " {
			t.Errorf("it asks %q", said.String())
		}
	}
}

// A person who presses Ctrl-C at a question need not press it again, and what is printed next is on a line of its own.
func TestQuestionsEndWithTheContext(t *testing.T) {
	t.Parallel()
	silent, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said strings.Builder
	c := Console{Stdin: silent, Stderr: &said}
	for name, err := range map[string]error{
		"confirm":        c.confirm(ctx, "This removes it.", "Acme"),
		"standard input": second(c.ReadFile(ctx, standardInput)),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if said.String() != "This removes it.\nType Acme to confirm: \n" {
		t.Errorf("it says %q", said.String())
	}
}

func second[T any](_ T, err error) error { return err }

func TestConfirmWithoutTerminalNamesYes(t *testing.T) {
	t.Parallel()
	c := Console{Stdin: strings.NewReader("Acme\n"), Stderr: io.Discard}
	got := errorText(c.Confirm(t.Context(), "This removes it.", "Acme"))
	if !strings.Contains(got, "This removes it.") || !strings.Contains(got, "--yes") {
		t.Errorf("it says %q", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
