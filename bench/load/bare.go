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

// bareCommand makes this program the bare handler: load bare FILE, where FILE has an answer with its headers.
const bareCommand = "bare"

// serveBare serves the answer at every path until ctx ends, and does nothing else. It is the lower bound for any service that
// uses this library. The library adds Content-Length and Date, as it does in sara.
func serveBare(ctx context.Context, file string, stdout io.Writer) error {
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

// repeat returns a handler that sends an answer, byte for byte.
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
