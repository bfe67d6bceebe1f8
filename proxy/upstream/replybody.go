package upstream

import (
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/valyala/fasthttp"
)

// freeBytes of a body are decoded without a CPU slot. Most bodies are smaller, and take less than a millisecond.
const freeBytes = 128 << 10

// A replyBody reads the body of a response from its connection, decoded and bounded. It remembers its failure as an error of
// the call. After freeBytes it holds a CPU slot, except while it waits for the connection.
type replyBody struct {
	transport *transport
	ctx       context.Context // of the call
	access    string
	decoded   io.Reader
	unzip     *gzip.Reader // nil: the body is not compressed
	most      int64        // maximum size of the body, in bytes
	left      int64
	slot      bool // whether it holds a slot
	err       error
}

// openBody returns the body of a response. The caller closes it.
func (t *transport) openBody(ctx context.Context, resp *fasthttp.Response, access string, most int64) *replyBody {
	b := &replyBody{transport: t, ctx: ctx, access: access, most: most, left: most}
	sent := io.Reader(eofReader{})
	if stream := resp.BodyStream(); stream != nil {
		sent = connectionReader{b, stream}
	}
	switch encoding := string(resp.Header.ContentEncoding()); {
	case int64(resp.Header.ContentLength()) > most:
		b.err = tooLarge(most)
	case encoding == "" || encoding == "identity":
		b.decoded = sent
	case encoding != "gzip":
		b.err = badReply("a body that does not decompress: " + encoding)
	default:
		b.unzip, _ = t.unzips.Get().(*gzip.Reader)
		var err error
		if b.unzip == nil {
			b.unzip, err = gzip.NewReader(sent)
		} else {
			err = b.unzip.Reset(sent)
		}
		b.decoded = b.unzip
		b.failed(err)
	}
	return b
}

// close releases the slot, and keeps the decompressor for another body.
func (b *replyBody) close() {
	b.releaseSlot()
	if b.unzip != nil {
		b.transport.unzips.Put(b.unzip)
	}
}

// failed remembers an error of the decompression, unless it comes from the connection.
func (b *replyBody) failed(err error) {
	if err != nil && b.err == nil {
		b.err = badReply("a body that does not decompress")
	}
}

// Read implements io.Reader.
func (b *replyBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.decoded.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.err = tooLarge(b.most)
		return 0, b.err
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	b.failed(err)
	return n, b.err
}

// A connectionReader reads a body as it arrives.
type connectionReader struct {
	body   *replyBody
	stream io.Reader
}

// Read implements io.Reader.
func (r connectionReader) Read(p []byte) (int, error) {
	r.body.releaseSlot()
	if r.body.err = r.body.ctx.Err(); r.body.err != nil {
		return 0, r.body.err // the caller left, and no longer reserves the memory of the rows
	}
	n, err := r.stream.Read(p)
	if err == nil {
		err = r.body.acquireSlot()
	}
	switch {
	case err == nil || err == io.EOF:
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.body.err = unreachable("the connection closed within the answer")
	default:
		r.body.err = r.body.transport.failure(err, r.body.access)
	}
	if r.body.err != nil {
		return n, r.body.err
	}
	return n, err
}

// acquireSlot waits for a CPU slot, unless the body has been small so far.
func (b *replyBody) acquireSlot() error {
	if b.most-b.left < freeBytes {
		return nil
	}
	err := b.transport.slots.Acquire(b.ctx)
	b.slot = err == nil
	return err
}

func (b *replyBody) releaseSlot() {
	if b.slot {
		b.slot = false
		b.transport.slots.Release()
	}
}

// An eofReader is an empty body.
type eofReader struct{}

func (eofReader) Read([]byte) (int, error) { return 0, io.EOF }
