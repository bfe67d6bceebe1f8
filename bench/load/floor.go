package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/valyala/fasthttp"
)

// floorCommand is how this program runs itself as the floor: load floor FILE, with an answer as it came over the wire.
const floorCommand = "floor"

// serveFloor serves the answer at every path until ctx ends, and does nothing else: what any service written with this
// library costs at least. Content-Length and Date are the library's own, as they are in sara.
func serveFloor(ctx context.Context, file string, stdout io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	handler, err := repeat(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "listening on %s\n", listener.Addr()); err != nil {
		return err
	}
	server := fasthttp.Server{Handler: handler, NoDefaultServerHeader: true, NoDefaultContentType: true}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// repeat returns a handler that gives an answer again, byte by byte.
func repeat(answer []byte) (fasthttp.RequestHandler, error) {
	parsed, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(parsed.Body)
	if err != nil {
		return nil, err
	}
	type field struct{ name, value []byte }
	var fields []field
	for name, values := range parsed.Header {
		for _, value := range values {
			if name != fasthttp.HeaderContentLength && name != fasthttp.HeaderDate {
				fields = append(fields, field{[]byte(name), []byte(value)})
			}
		}
	}
	status := parsed.StatusCode
	return func(c *fasthttp.RequestCtx) {
		c.SetStatusCode(status)
		for _, f := range fields {
			c.Response.Header.SetCanonical(f.name, f.value)
		}
		c.Response.SetBodyRaw(body)
	}, nil
}
