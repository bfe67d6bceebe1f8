package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"sara/proxy/cache"
	"sara/proxy/media"
	"sara/proxy/openapi"
	"sara/proxy/tabular"
)

// forms write answers in the forms that clients prefer, and keep what they have written with the answer. They are safe for concurrent use.
type forms struct {
	work  largeWork
	cache *cache.Cache
}

// finish returns the reply in the form that the client prefers. A long answer that must be converted or compressed waits for its turn
// among other large work, unless it has one.
func (f forms) finish(ctx context.Context, x *exchange, r reply) (reply, error) {
	if x.turn != nil || x.isAtHand(r.answer) {
		return f.inForm(x, r)
	}
	end, err := f.work.beginText(ctx, r.answer.Head())
	if err != nil {
		return reply{}, err
	}
	defer end()
	return f.inForm(x, r)
}

// isAtHand reports whether the answer needs to be neither converted nor compressed.
func (x *exchange) isAtHand(a *cache.Answer) bool {
	if f := x.header.format; f != media.JSON && x.route.table != nil {
		made := a.Rendition(int(f))
		if made == nil {
			return false
		}
		a = made.Answer
	}
	return !x.packs(a) || a.IsPacked() || x.hasCurrent(a.ETag())
}

// inForm returns the reply in the format that the client prefers, and compresses it if it will be sent so. Both are kept with the answer.
func (f forms) inForm(x *exchange, r reply) (reply, error) {
	r, err := f.render(x, r)
	if err == nil && x.packs(r.answer) && !x.hasCurrent(r.answer.ETag()) {
		r.answer.Packed()
	}
	return r, err
}

// compressFrom is the length of a body below which compression saves nothing.
const compressFrom = 1 << 10

// packs reports whether the client gets an answer compressed.
func (x *exchange) packs(a *cache.Answer) bool { return x.header.gzip && len(a.Head()) >= compressFrom }

// render returns the reply in the format that the client prefers, if it has rows. It is made from the JSON answer, and kept with it, so
// that it is as fresh as that one.
func (f forms) render(x *exchange, r reply) (reply, error) {
	format := x.header.format
	if format == media.JSON || x.route.table == nil {
		return r, nil
	}
	made := r.answer.Rendition(int(format))
	if made == nil {
		var err error
		if made, err = renditionOf(x.route.table, format, r); err != nil {
			return reply{}, fmt.Errorf("write the answer as %s: %w", format, err)
		}
		f.cache.KeepRendition(r.answer, int(format), made)
	}
	r.answer, r.tail, r.format, r.fields = made.Answer, nil, format, made.Fields
	return r, nil
}

// renditionOf converts a JSON answer.
func renditionOf(t *tabular.Table, f media.Format, r reply) (*cache.Rendition, error) {
	body, meta, err := t.Convert(f, r.answer.Head())
	if err != nil {
		return nil, err
	}
	return r.answer.NewRendition(body, "-"+f.String(), metaFields(r.tail(slices.Clone(meta), "", ""))), nil
}

// maxNotes bounds the bytes of the notes in the header: proxies and clients refuse headers that are much longer.
const maxNotes = 6 << 10

// metaFields returns the header fields that say what the meta says, which begins the text. A member that is null or absent has none.
func metaFields(text []byte) (fields []cache.Field) {
	meta := gjson.ParseBytes(text)
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, cache.Field{Name: name, Value: escapeField(value)})
		}
	}
	add(openapi.HeaderSource, meta.Get("source").String())
	add(openapi.HeaderStaleReason, meta.Get("stale_reason").String())
	add(openapi.HeaderTruncatedBy, meta.Get("truncated_by").String())
	add(openapi.HeaderHasMore, meta.Get("has_more").String())
	if applied := meta.Get("date_range"); applied.Exists() {
		add(openapi.HeaderDateRange, applied.Get("start_date").String()+"/"+applied.Get("end_date").String())
	}
	notes, length := meta.Get("notes").Array(), 0
	for i, note := range notes {
		if length += len(escapeField(note.String())); length > maxNotes {
			add(openapi.HeaderNote, countOf(len(notes)-i, "more note is", "more notes are")+" in the JSON answer only.")
			break
		}
		add(openapi.HeaderNote, note.String())
	}
	return fields
}

// escapeField percent-encodes what a header field cannot hold: characters beyond ASCII, as UTF-8, and control characters; and the percent
// sign, so that the value can be decoded.
func escapeField(value string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '%' {
			out.WriteString(string([]byte{'%', hex[c>>4], hex[c&0xf]}))
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
