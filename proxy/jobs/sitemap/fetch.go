package sitemap

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"code.dny.dev/ssrf"
	"github.com/dustin/go-humanize"
)

// open fetches a file and returns the response body, not decoded. The caller closes it.
func (r *Reader) open(ctx context.Context, scope Scope, location string) (io.ReadCloser, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, errInvalid
	}
	if err := scope.allows(u, r.allowLoopback); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, errInvalid
	}
	request.Header.Set("User-Agent", r.userAgent)
	request.Header.Set("Accept", "application/xml, text/xml, text/plain, application/gzip")
	request.Header.Set("Accept-Encoding", "gzip")
	client := http.Client{Transport: r.transport, CheckRedirect: r.followIn(scope)}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if err := r.acceptable(response); err != nil {
		_ = response.Body.Close() // the body is not read
		return nil, err
	}
	return response.Body, nil
}

// followIn returns the redirect check: it allows a limited number of redirects, each only to a URL that may itself be fetched.
func (r *Reader) followIn(scope Scope) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if len(via) > r.limits.Redirects {
			return problem(fmt.Sprintf("it redirects more than %d times", r.limits.Redirects))
		}
		if err := scope.allows(next.URL, r.allowLoopback); err != nil {
			return problem("it redirects to where it must not be followed: " + strings.Replace(err.Error(), "its", "the", 1))
		}
		return nil
	}
}

// acceptable returns why a response is not read as a sitemap; nil if it is.
func (r *Reader) acceptable(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return problem(fmt.Sprintf("it answers %d", response.StatusCode))
	}
	for coding := range strings.SplitSeq(strings.Join(response.Header.Values("Content-Encoding"), ","), ",") {
		switch coding = strings.ToLower(strings.TrimSpace(coding)); coding {
		case "", "identity", "gzip", "x-gzip": // decode relies on the magic bytes
		default:
			return problem(fmt.Sprintf("its encoding %.20q is not known", coding))
		}
	}
	if response.ContentLength > r.limits.FileBytes {
		return errTooLarge(r.limits.FileBytes)
	}
	return nil
}

func errTooLarge(limit int64) error {
	return problem("it is larger than " + humanize.IBytes(uint64(limit))) // #nosec G115 -- a limit is not negative
}

// explain describes the error of a file for people. It reveals no addresses or names of the local network.
func (r *Reader) explain(err error) string {
	var (
		known   problem
		dns     *net.DNSError
		timeout net.Error
		op      *net.OpError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		corrupt flate.CorruptInputError
		request *url.Error
	)
	switch {
	case errors.As(err, &known):
		return string(known)
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrInvalidHostPort):
		return "its server has no public address"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the name of its server does not resolve"
	case errors.As(err, &dns):
		return "the name of its server could not be looked up"
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return "its server offers no connection that can be trusted (TLS)"
	case errors.As(err, &op) && op.Op == "dial":
		return "no connection to its server"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no complete answer within %s", r.limits.FileTime)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return "its gzip data is broken"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it breaks off before its end"
	case op == nil && !errors.Is(err, io.EOF) && errors.As(err, &request):
		return "its server's answer is not valid HTTP"
	}
	return "the connection to its server broke"
}
