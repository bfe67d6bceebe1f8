package console

import (
	"bytes"
	"io"
	"unicode"
)

// Text returns a writer of text for people. Names and messages in it may come from a server, so it replaces control characters, which
// are commands to a terminal, with spaces; ends of lines and tabs stay. One write has whole characters.
func Text(w io.Writer) io.Writer { return text{w} }

// Raw returns the writer of which Text made one of text, and any other writer as it is. Progress bars and logs need it: bars move the cursor of
// a file, and logs are cut into writes at any byte, and quote by themselves.
func Raw(w io.Writer) io.Writer {
	if t, ok := w.(text); ok {
		return t.to
	}
	return w
}

type text struct{ to io.Writer }

// Write implements io.Writer.
func (t text) Write(p []byte) (int, error) {
	n, err := t.to.Write(bytes.Map(withoutCommands, p)) // bytes that are not UTF-8, which may be commands too, become U+FFFD
	if err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

func withoutCommands(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return ' '
	}
	return r
}
