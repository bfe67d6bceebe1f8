package console

import (
	"bytes"
	"fmt"
	"testing"
)

func TestTextHasNoCommandsToATerminal(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"größe:\t1\n":              "größe:\t1\n",
		"\x1b]0;title\x07 \x1b[2J": " ]0;title   [2J",
		"ok\r\u009b31m\x7f":        "ok  31m ",
		"\x9b31m":                  "\ufffd31m",
	} {
		var out bytes.Buffer
		if n, err := fmt.Fprint(Text(&out), said); n != len(said) || err != nil || out.String() != want {
			t.Errorf("%q is written as %q, want %q (%d bytes, %v)", said, out.String(), want, n, err)
		}
		if Raw(Text(&out)) != &out || Raw(&out) != &out {
			t.Error("Raw returns another writer")
		}
	}
}
