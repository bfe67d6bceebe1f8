package gscsim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// rawJSON is an encoded body.
type rawJSON []byte

// writeJSON sends a body as Google's front end does: indented unless prettyPrint=false, and compressed if the client accepts gzip.
func writeJSON(w http.ResponseWriter, r *http.Request, code int, body any) {
	text, ok := body.(rawJSON)
	if !ok {
		text = encode(body)
	}
	if !strings.Contains(r.URL.RawQuery, "prettyPrint=false") {
		text = indent(text)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	h.Set("Vary", "Origin, X-Origin, Referer, Accept-Encoding")
	h.Set("Server", "ESF")
	h.Set("Cache-Control", "private")
	h.Set("X-Content-Type-Options", "nosniff")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		text = compress(text)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(code)
	_, _ = w.Write(text) // a disconnected client is not an error
}

func encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic("BUG: gscsim: an answer does not encode: " + err.Error())
	}
	return text
}

func indent(text []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		panic("BUG: gscsim: an answer is not JSON: " + err.Error())
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// compress is stateless: a writer of another level allocates more than the size of most answers.
func compress(text []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.StatelessCompression)
	if err != nil {
		panic("BUG: gscsim: " + err.Error())
	}
	if _, err := z.Write(text); err != nil {
		panic("BUG: gscsim: writing to memory: " + err.Error())
	}
	if err := z.Close(); err != nil {
		panic("BUG: gscsim: writing to memory: " + err.Error())
	}
	return out.Bytes()
}

// appendNumber writes a double as Google's encoder does: integers without a fraction, others with 15 significant digits if that
// is exact, else with 17.
func appendNumber(dst []byte, v float64) []byte {
	if v == float64(int64(v)) {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', 15, 64)
	if back, err := strconv.ParseFloat(string(dst[start:]), 64); err == nil && back == v {
		return dst
	}
	return strconv.AppendFloat(dst[:start], v, 'g', 17, 64)
}

// appendString writes s as a JSON string with HTML characters escaped, as Google does.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return append(dst, quoted(s)...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
