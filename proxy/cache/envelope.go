package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"sara/translate"
)

// A value in Redis is, in this order, numbers little-endian:
//
//	4 bytes  "sara"
//	1        version
//	1        flags, none of which means anything yet
//	8        when it was filled, in nanoseconds since 1970
//	8        Question.Asked of the fill
//	8        id of the fill
//	4, n     length of the full key, and the key
//	rest     rows (translate.Rows.AppendBinary), compressed with zstd
//	8        xxHash64 of all that is before
const (
	magic          = "sara"
	version        = 1
	keyAt          = len(magic) + 1 + 1 + 3*8
	sumSize        = 8
	maxPayload     = 64 << 20        // of the rows, decompressed: 25,000 rows of the longest keys take less
	maxClockDrift  = 5 * time.Minute // how far the clock of another replica may be ahead
	decoderThreads = 0               // as many as there are cores
)

// Why a value is not understood.
var (
	errVersion = errors.New("it has another version")
	errTorn    = errors.New("it is not whole")
	errForeign = errors.New("it is of another question, or of another time")
)

// codec writes and reads values of Redis. It is safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// newCodec returns one that reads no rows of more than so many bytes.
func newCodec(most uint64) (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("build the compressor of shared copies: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(decoderThreads), zstd.WithDecoderMaxMemory(most), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("build the decompressor of shared copies: %w", err)
	}
	return &codec{encoder: encoder, decoder: decoder}, nil
}

func (c *codec) close() { c.decoder.Close() }

// encode returns the value of an entry.
func (c *codec) encode(e *Entry) []byte {
	value := append(make([]byte, 0, 512), magic...)
	value = append(value, version, 0)
	value = binary.LittleEndian.AppendUint64(value, uint64(e.filled.UnixNano()))
	value = binary.LittleEndian.AppendUint64(value, e.requestHash)
	value = binary.LittleEndian.AppendUint64(value, e.id)
	value = binary.LittleEndian.AppendUint32(value, uint32(len(e.key)))
	value = append(value, e.key...)
	value = c.encoder.EncodeAll(e.rows.AppendBinary(nil), value)
	return binary.LittleEndian.AppendUint64(value, xxhash.Sum64(value))
}

// sealed is a value whose frame was checked, and whose rows were not read yet.
type sealed struct {
	entry   Entry // without rows
	payload []byte
}

// open checks the frame of a value that was found under a key.
func open(value []byte, key string, now time.Time) (*sealed, error) {
	if len(value) < len(magic)+1 || string(value[:len(magic)]) != magic {
		return nil, errTorn
	}
	if value[len(magic)] != version {
		return nil, errVersion
	}
	body := len(value) - sumSize
	if body < keyAt+4 || xxhash.Sum64(value[:body]) != binary.LittleEndian.Uint64(value[body:]) {
		return nil, errTorn
	}
	numbers, rest := value[len(magic)+2:keyAt], value[keyAt:body]
	size := int64(binary.LittleEndian.Uint32(rest))
	rest = rest[4:]
	if size > int64(len(rest)) {
		return nil, errTorn
	}
	filled := time.Unix(0, int64(binary.LittleEndian.Uint64(numbers)))
	if string(rest[:size]) != key || filled.Sub(now) > maxClockDrift {
		return nil, errForeign
	}
	return &sealed{
		entry:   Entry{key: key, filled: filled, requestHash: binary.LittleEndian.Uint64(numbers[8:]), id: binary.LittleEndian.Uint64(numbers[16:])},
		payload: rest[size:],
	}, nil
}

// unpack reads the rows.
func (c *codec) unpack(s *sealed) (*Entry, error) {
	data, err := c.decoder.DecodeAll(s.payload, nil)
	if err != nil {
		return nil, errTorn
	}
	rows, err := translate.ParseRows(data)
	if err != nil {
		return nil, errTorn
	}
	return &Entry{key: s.entry.key, rows: rows, filled: s.entry.filled, requestHash: s.entry.requestHash, id: s.entry.id}, nil
}
