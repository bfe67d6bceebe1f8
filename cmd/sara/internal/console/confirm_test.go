package console

import (
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
		err := c.confirm("This removes it.", "Acme")
		if got := errorText(err); got != want {
			t.Errorf("the answer %q: %q, want %q", answer, got, want)
		}
		if said.String() != "This removes it.\nType Acme to confirm: " {
			t.Errorf("it asks %q", said.String())
		}
	}
}

func TestConfirmWithoutTerminalNamesYes(t *testing.T) {
	t.Parallel()
	c := Console{Stdin: strings.NewReader("Acme\n"), Stderr: io.Discard}
	if got := errorText(c.Confirm("This removes it.", "Acme")); !strings.Contains(got, "This removes it.") || !strings.Contains(got, "--yes") {
		t.Errorf("it says %q", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
