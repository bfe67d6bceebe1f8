package cache

import (
	"strings"
	"sync/atomic"
)

// A Rendition is an answer in another format. It is immutable.
type Rendition struct {
	*Answer         // its head is the whole body
	Fields  []Field // of the header
}

// A Field is a header field.
type Field struct{ Name, Value string }

// maxRenditions is how many formats an answer may have in addition to its own, counted from 1.
const maxRenditions = 2

// renditions are those of an answer.
type renditions [maxRenditions]atomic.Pointer[Rendition]

// NewRendition returns a rendition of the answer. Its entity tag is that of the answer with a suffix, because they change together. The
// body must not change afterwards.
func (a *Answer) NewRendition(body []byte, suffix string, fields []Field) *Rendition {
	tag := strings.TrimSuffix(a.etag, `"`) + suffix + `"`
	return &Rendition{Answer: &Answer{head: body, etag: tag, filled: a.filled}, Fields: fields}
}

// Rendition returns the kept rendition in a format; nil if there is none.
func (a *Answer) Rendition(format int) *Rendition { return a.renditions[format-1].Load() }

// KeepRendition keeps a rendition with its answer, for as long as that is in memory. It counts against the same account's share. If the
// answer was never kept, neither is the rendition.
func (c *Cache) KeepRendition(a *Answer, format int, r *Rendition) {
	if a.key == "" {
		return
	}
	a.renditions[format-1].Store(r)
	if c.memory.has(a) {
		c.memory.putAnswer(a.key, a, a.account) // re-put with its new weight
	}
}

// size returns the bytes that the rendition holds.
func (r *Rendition) size() int {
	bytes := r.Answer.size()
	for _, f := range r.Fields {
		bytes += len(f.Name) + len(f.Value)
	}
	return bytes
}
