package main

import (
	"errors"
	"io"
	"syscall"

	"github.com/valyala/fasthttp"
)

// closedBetween reports whether the server closed a kept-alive connection before it answered, as servers may at any time. Then
// the request is sent once more.
func closedBetween(err error) bool {
	return err == io.EOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) // a wrapped io.EOF is half an answer
}

// describe shortens an error of a request, so that equal ones count as one.
func describe(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case closedBetween(err), errors.Is(err, fasthttp.ErrConnectionClosed):
		return "connection closed"
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, fasthttp.ErrDialTimeout):
		return "timeout"
	}
	return err.Error()
}
