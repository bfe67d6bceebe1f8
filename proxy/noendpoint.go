package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/mcp"
	"sara/proxy/openapi"
	"sara/translate"
)

// frontDoor serves the root, which people try first: it points to the API reference.
func frontDoor(s *Server, _ context.Context, _ *exchange) (reply, error) {
	return s.root, nil
}

// unknownPath serves requests for which the router finds no endpoint.
func unknownPath(*Server, context.Context, *exchange) (reply, error) {
	return reply{}, &apiError{code: policy.CodeNotFound,
		message: "there is nothing at this path; a property's own URL has to be percent-encoded as one path segment"}
}

// readMethods are the methods of all paths but pathMCP.
const readMethods = "GET, HEAD"

// wrongMethod returns a handler of requests with another method than those allowed. The message ends with how requests are sent.
func wrongMethod(allowed, how string) handler {
	return func(_ *Server, _ context.Context, x *exchange) (reply, error) {
		return reply{}, &apiError{code: openapi.CodeMethodNotAllowed, allow: allowed,
			message: "the method " + string(x.http.Method()) + " is not allowed: " + how}
	}
}

// pathMalformed is the path in logs of what cannot be parsed.
const pathMalformed = "malformed"

var errVersion = errors.New("a version of HTTP other than 1.0 and 1.1")

// sendMalformed answers input that cannot be parsed as a request. The HTTP library calls it instead of the handler.
func (s *Server) sendMalformed(http *fasthttp.RequestCtx, err error) {
	e := &apiError{code: translate.CodeValidation, message: "this is not an HTTP request that can be read"}
	var interrupted interface{ Timeout() bool }
	switch {
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		e = &apiError{code: openapi.CodeTooLarge, status: fasthttp.StatusRequestHeaderFieldsTooLarge,
			message: fmt.Sprintf("the URL and the headers are longer than %d bytes together", maxHeader)}
	case errors.Is(err, errVersion):
		e.message = "the request has " + errVersion.Error()
	case errors.Is(err, fasthttp.ErrBodyTooLarge), connectionOf(http).IsOverrun():
		e = &apiError{code: openapi.CodeTooLarge, status: fasthttp.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("no request takes a body, except messages to %s of at most %d bytes", pathMCP, mcp.MaxBody)}
	case errors.As(err, &interrupted) && interrupted.Timeout():
		e.status, e.message = fasthttp.StatusRequestTimeout, "the request took too long to arrive"
	}
	x := s.newExchange(&route{Path: pathMalformed}, http)
	s.errors.send(x, e)
	s.sharing.share(http)
	s.telemetry.record(x, e)
}
