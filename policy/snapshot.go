package policy

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// maxSnapshotBytes bounds a snapshot as JSON, and so its compressed form, the memory to read it, and the memory that it takes in
// Redis. A key takes about 400 bytes of it, and a property with its query 530: it holds about 9,100 keys with a property each, in
// 2 MB of compressed bytes, and of more than that the ones that were looked up last.
const maxSnapshotBytes = 8 << 20

// A snapshot is sealed for its format, which includes the fields of Key and Property: a field that another version left out would be
// read as zero. A change of the format needs another number.
const snapshotPurpose = "snapshot of the directory, format 2"

// A snapshot is what a gate knew about the directory.
type snapshot struct {
	snapshotHead
	answers []knownAnswer // the latest first
}

// A snapshotHead is the first line of a snapshot.
type snapshotHead struct {
	Change  string    `json:"change"`  // the last published change before the edition was read
	Edition uint64    `json:"edition"` // of the directory
	ReadAt  time.Time `json:"read_at"` // when the edition was read; no answer is of another edition
}

// encode returns the snapshot as compressed lines of JSON, the head and an answer each, without the answers that do not fit, and
// how many keys are in it.
func (s *snapshot) encode() (compressed []byte, keys int, err error) {
	var out bytes.Buffer
	deflate, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, 0, fmt.Errorf("compress a snapshot: %w", err)
	}
	lines := &boundedWriter{out: deflate, left: maxSnapshotBytes}
	encoder := json.NewEncoder(lines)
	err = encoder.Encode(&s.snapshotHead)
	for i := 0; err == nil && i < len(s.answers); i++ {
		err = encoder.Encode(&s.answers[i])
		if err == nil && s.answers[i].Key != nil {
			keys++
		}
	}
	if err != nil && !errors.Is(err, errSnapshotFull) {
		return nil, 0, fmt.Errorf("encode a snapshot: %w", err)
	}
	if err := deflate.Close(); err != nil {
		return nil, 0, fmt.Errorf("compress a snapshot: %w", err)
	}
	return out.Bytes(), keys, nil
}

var errSnapshotFull = errors.New("the snapshot is full")

// A boundedWriter refuses a whole write that does not fit. An encoder makes one write for each value.
type boundedWriter struct {
	out  io.Writer
	left int
}

// Write implements io.Writer.
func (w *boundedWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errSnapshotFull
	}
	w.left -= len(p)
	return w.out.Write(p)
}

// decodeSnapshot is the inverse of encode. It checks everything, and reads at most maxSnapshotBytes of JSON.
func decodeSnapshot(compressed []byte) (*snapshot, error) {
	bounded := &io.LimitedReader{R: flate.NewReader(bytes.NewReader(compressed)), N: maxSnapshotBytes + 1}
	lines := json.NewDecoder(bounded)
	lines.DisallowUnknownFields()
	s := &snapshot{}
	if err := lines.Decode(&s.snapshotHead); err != nil {
		return nil, fmt.Errorf("decode the head of a snapshot: %w", err)
	}
	for {
		var a knownAnswer
		err := lines.Decode(&a)
		if err == nil {
			err = a.check()
		}
		switch {
		case bounded.N <= 0:
			return nil, fmt.Errorf("the snapshot has more than %d bytes", maxSnapshotBytes)
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil:
			return nil, fmt.Errorf("decode answer %d of a snapshot: %w", len(s.answers), err)
		}
		s.answers = append(s.answers, a)
	}
}

// merge adds answers of the same edition that another gate knew; of two about the same subject, the later stays.
func (s *snapshot) merge(others []knownAnswer) {
	all := slices.Concat(s.answers, others)
	slices.SortStableFunc(all, func(a, b knownAnswer) int { return b.LoadedAt.Compare(a.LoadedAt) })
	seen := make(map[string]bool, len(all))
	s.answers = slices.DeleteFunc(all, func(a knownAnswer) bool {
		subject := a.subject()
		known := seen[subject]
		seen[subject] = true
		return known
	})
}

// dropUnless keeps the answers that are usable.
func (s *snapshot) dropUnless(usable func(*knownAnswer) bool) {
	s.answers = slices.DeleteFunc(s.answers, func(a knownAnswer) bool { return !usable(&a) })
}

func (s *snapshot) hasKeys() bool {
	return slices.ContainsFunc(s.answers, func(a knownAnswer) bool { return a.Key != nil })
}
