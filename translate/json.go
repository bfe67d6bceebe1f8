package translate

import "github.com/tidwall/gjson"

// maxJSONDepth is far deeper than what sara reads, and shallow enough for a small stack.
const maxJSONDepth = 200

// ValidJSON reports whether a text from outside is JSON with at most 200 nested arrays and objects. The parser validates by
// recursion: without the bound, 1 MiB of '[' would take 270 MiB of stack, and more of them would end the process.
func ValidJSON[T string | []byte](text T) bool {
	if !isShallow(text) {
		return false
	}
	switch text := any(text).(type) {
	case []byte:
		return gjson.ValidBytes(text)
	case string:
		return gjson.Valid(text)
	}
	return false
}

func isShallow[T string | []byte](text T) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text) && depth <= maxJSONDepth; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
	}
	return depth <= maxJSONDepth
}
