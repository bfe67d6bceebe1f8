package tablefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The library allocates what a footer says that it has before it reads it: the footer itself, and each of its lists and texts. So a file
// of some bytes could take all memory. checkFooter bounds that beforehand, without an allocation but the footer's.
const (
	// mostItems bounds the elements of all lists of a footer, some hundred bytes of memory each: a file of a gigabyte has some ten thousand.
	mostItems   = 1 << 20
	mostNesting = 32
)

var errFooter = errors.New("its footer is damaged")

// checkFooter refuses a Parquet file whose footer is longer than the file, or has longer lists and texts than its bytes.
func checkFooter(in io.ReaderAt, size int64) error {
	var end [4 + len(parquetMagic)]byte // the length, and the magic number
	if _, err := in.ReadAt(end[:], size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-int64(len(end)) {
		return fmt.Errorf("its footer would have %d bytes, and the file has %d", length, size)
	}
	text := make([]byte, length)
	if _, err := in.ReadAt(text, size-int64(len(end))-length); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	f := footer{text: text}
	return f.skip(typeStruct, 0)
}

// A footer is what is left of one, in Thrift's compact protocol, while it is skipped.
type footer struct {
	text  []byte
	items int // elements of lists so far
}

// The types of the compact protocol. A boolean field has its value in its type; an element has a byte.
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

// skip skips a value of a type.
func (f *footer) skip(kind byte, nesting int) error {
	switch {
	case nesting > mostNesting:
		return errFooter
	case kind == typeTrue, kind == typeFalse, kind == typeByte:
		return f.drop(1)
	case kind > typeByte && kind <= typeInt64:
		_, err := f.number()
		return err
	case kind == typeDouble:
		return f.drop(8)
	case kind == typeText:
		n, err := f.number()
		if err != nil {
			return err
		}
		return f.drop(n)
	case kind == typeList, kind == typeSet:
		return f.skipList(nesting)
	case kind == typeMap:
		return f.skipMap(nesting)
	case kind == typeStruct:
		return f.skipFields(nesting)
	}
	return errFooter
}

func (f *footer) skipFields(nesting int) error {
	for {
		head, err := f.next()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 { // its number follows
			if _, err := f.number(); err != nil {
				return err
			}
		}
		if kind := head & 0xf; kind != typeTrue && kind != typeFalse {
			if err := f.skip(kind, nesting+1); err != nil {
				return err
			}
		}
	}
}

func (f *footer) skipList(nesting int) error {
	head, err := f.next()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 0xf {
		if n, err = f.number(); err != nil {
			return err
		}
	}
	return f.skipItems(n, nesting, head&0xf)
}

func (f *footer) skipMap(nesting int) error {
	n, err := f.number()
	if err != nil || n == 0 {
		return err
	}
	head, err := f.next()
	if err != nil {
		return err
	}
	return f.skipItems(n, nesting, head>>4, head&0xf)
}

// skipItems skips elements of a list, or pairs of a map. Each takes a byte at least.
func (f *footer) skipItems(n uint64, nesting int, kinds ...byte) error {
	if n > uint64(len(f.text)) || f.items+int(n) > mostItems {
		return fmt.Errorf("%w: a list of it would have %d elements", errFooter, n)
	}
	f.items += int(n)
	for range n {
		for _, kind := range kinds {
			if err := f.skip(kind, nesting+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *footer) next() (byte, error) {
	if len(f.text) == 0 {
		return 0, errFooter
	}
	b := f.text[0]
	return b, f.drop(1)
}

func (f *footer) number() (uint64, error) {
	n, length := binary.Uvarint(f.text)
	if length <= 0 {
		return 0, errFooter
	}
	return n, f.drop(uint64(length))
}

func (f *footer) drop(n uint64) error {
	if n > uint64(len(f.text)) {
		return errFooter
	}
	f.text = f.text[n:]
	return nil
}
