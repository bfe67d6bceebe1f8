package sitemap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"golang.org/x/text/encoding/unicode"
)

// decode returns the text of a file: it undoes up to two layers of gzip, because a gzipped file may be sent gzipped, and drops a
// byte order mark. It relies on the magic bytes, because headers and file names are often wrong. Each layer is bounded by the
// limit, and adds what is read to a count. UTF-16 is converted to UTF-8; any other character set is left for the XML declaration to name.
func decode(body io.Reader, limit int64, count *int64) (*bufio.Reader, error) {
	text := bufio.NewReader(&bounded{source: body, left: limit, limit: limit, count: count})
	for range 2 {
		magic, err := peek(text, 2)
		if err != nil {
			return nil, err
		}
		if string(magic) != "\x1f\x8b" {
			break
		}
		unpacked, err := gzip.NewReader(text)
		if err != nil {
			return nil, err
		}
		text = bufio.NewReader(&bounded{source: unpacked, left: limit, limit: limit, count: count})
	}
	mark, err := peek(text, 3)
	if err != nil {
		return nil, err
	}
	switch {
	case string(mark) == "\xef\xbb\xbf":
		_, err = text.Discard(3)
		return text, err
	case bytes.HasPrefix(mark, []byte("\xfe\xff")), bytes.HasPrefix(mark, []byte("\xff\xfe")):
		utf16 := unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM)
		return bufio.NewReader(utf16.NewDecoder().Reader(text)), nil
	}
	return text, nil
}

// peek returns the next n bytes, or fewer at the end.
func peek(text *bufio.Reader, n int) ([]byte, error) {
	next, err := text.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return next, err
}

// bounded reads at most limit bytes; a longer source is an error. It adds what it reads to count.
type bounded struct {
	source      io.Reader
	left, limit int64
	count       *int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.source.Read(p)
	*b.count += int64(n)
	if int64(n) > b.left {
		return int(b.left), errTooLarge(b.limit)
	}
	b.left -= int64(n)
	return n, err
}
