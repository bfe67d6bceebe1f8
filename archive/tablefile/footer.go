package tablefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Before reading a footer, the library allocates whatever sizes it declares: the footer itself, and each of its lists and texts. So a tiny
// file could exhaust the memory. checkFooter bounds the sizes beforehand, and allocates only the footer.
const (
	// mostItems bounds the elements of all lists of a footer, at some hundred bytes of memory each: a file of a gigabyte has about ten thousand.
	mostItems   = 1 << 20
	mostNesting = 32
)

var errThrift = errors.New("it is damaged")

// checkFooter refuses a Parquet file whose footer is longer than the file, or has longer lists and texts than its bytes.
func checkFooter(in io.ReaderAt, size int64) error {
	var end [4 + len(parquetMagic)]byte // the length, and the magic number
	if size < int64(len(end)) {
		return fmt.Errorf("it has only %d bytes", size)
	}
	if _, err := in.ReadAt(end[:], size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-int64(len(end)) {
		return fmt.Errorf("its footer would have %d bytes, but the file has %d", length, size)
	}
	text := make([]byte, length)
	if _, err := in.ReadAt(text, size-int64(len(end))-length); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	t := thriftText{text: text}
	if err := t.skip(typeStruct, 0); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	return nil
}

// A thriftText is the rest of a footer or header, in Thrift's compact protocol, while it is being skipped.
type thriftText struct {
	text  []byte
	items int // elements of lists so far
}

// The types of the compact protocol. A boolean field has its value in its type; a boolean element has a byte.
const (
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeInt64  = 6 // and the shorter ones between
	typeDouble = 7
	typeText   = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
)

// skip skips a value of the given type.
func (t *thriftText) skip(kind byte, nesting int) error {
	switch {
	case nesting > mostNesting:
		return errThrift
	case kind == typeTrue, kind == typeFalse, kind == typeByte:
		return t.drop(1)
	case kind > typeByte && kind <= typeInt64:
		_, err := t.number()
		return err
	case kind == typeDouble:
		return t.drop(8)
	case kind == typeText:
		n, err := t.number()
		if err != nil {
			return err
		}
		return t.drop(n)
	case kind == typeList, kind == typeSet:
		return t.skipList(nesting)
	case kind == typeMap:
		return t.skipMap(nesting)
	case kind == typeStruct:
		return t.skipFields(nesting)
	}
	return errThrift
}

func (t *thriftText) skipFields(nesting int) error {
	for {
		head, err := t.next()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 { // its field number follows
			if _, err := t.number(); err != nil {
				return err
			}
		}
		if kind := head & 0xf; kind != typeTrue && kind != typeFalse {
			if err := t.skip(kind, nesting+1); err != nil {
				return err
			}
		}
	}
}

func (t *thriftText) skipList(nesting int) error {
	head, err := t.next()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 0xf {
		if n, err = t.number(); err != nil {
			return err
		}
	}
	return t.skipItems(n, nesting, head&0xf)
}

func (t *thriftText) skipMap(nesting int) error {
	n, err := t.number()
	if err != nil || n == 0 {
		return err
	}
	head, err := t.next()
	if err != nil {
		return err
	}
	return t.skipItems(n, nesting, head>>4, head&0xf)
}

// skipItems skips elements of a list, or pairs of a map. Each takes at least a byte.
func (t *thriftText) skipItems(n uint64, nesting int, kinds ...byte) error {
	if n > uint64(len(t.text)) || t.items+int(n) > mostItems {
		return fmt.Errorf("%w: a list in it would have %d elements", errThrift, n)
	}
	t.items += int(n)
	for range n {
		for _, kind := range kinds {
			if err := t.skip(kind, nesting+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *thriftText) next() (byte, error) {
	if len(t.text) == 0 {
		return 0, errThrift
	}
	b := t.text[0]
	return b, t.drop(1)
}

func (t *thriftText) number() (uint64, error) {
	n, length := binary.Uvarint(t.text)
	if length <= 0 {
		return 0, errThrift
	}
	return n, t.drop(uint64(length))
}

func (t *thriftText) drop(n uint64) error {
	if n > uint64(len(t.text)) {
		return errThrift
	}
	t.text = t.text[n:]
	return nil
}
