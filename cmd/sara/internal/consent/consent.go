// Package consent brings a person from a terminal to the consent page of Google, and the answer back: it opens the page in a
// browser, and receives the answer on a loopback address of this machine (RFC 8252).
package consent

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"sara/proxy/upstream"
)

// Listen listens for the answer on a port of this machine, 0 for any free one. The caller closes the listener.
func Listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// Address returns the address of a listener that the browser is sent back to.
func Address(l net.Listener) string { return "http://" + l.Addr().String() }

// Open opens an address in the browser of this machine. It does not wait for it.
func Open(address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	command := exec.Command(program, args...)
	if err := command.Start(); err != nil {
		return err
	}
	return command.Process.Release()
}

// outcome is the first answer to the attempt.
type outcome struct {
	code string
	err  error
}

// Await serves the listener until the first answer, which read turns into a code or an error, or until ctx ends. An answer for which
// read returns upstream.ErrOtherAttempt is refused, and the wait goes on.
func Await(ctx context.Context, l net.Listener, read func(url.Values) (string, error)) (code string, err error) {
	first := make(chan outcome, 1)
	server := &http.Server{
		Handler:           receiver(l.Addr().String(), read, first),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case o := <-first:
		code, err = o.code, o.err
	case <-ctx.Done():
		err = ctx.Err()
	case err := <-served:
		return "", err
	}
	const patience = 2 * time.Second // for the browser to get its page
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if server.Shutdown(ending) != nil {
		_ = server.Close() // a browser that does not read its page
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return code, err
}

// receiver sends the first answer to a channel. Other requests are not answers: browsers ask for icons, and the host of a request
// that another page makes by DNS rebinding is not the address of the listener. Any page can send answers to another attempt.
func receiver(host string, read func(url.Values) (string, error), first chan<- outcome) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parameters := r.URL.Query()
		if r.Host != host || r.URL.Path != "/" || r.Method != http.MethodGet || !upstream.IsAnswer(parameters) {
			http.NotFound(w, r)
			return
		}
		code, err := read(parameters)
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "no-referrer") // the address has the code
		h.Set("Cache-Control", "no-store")
		switch {
		case errors.Is(err, upstream.ErrOtherAttempt):
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, otherPage)
			return
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, failedPage)
		default:
			_, _ = io.WriteString(w, donePage)
		}
		select {
		case first <- outcome{code, err}:
		default: // a second answer
		}
	})
}

const (
	donePage = `<!doctype html>
<html lang="en"><meta name="color-scheme" content="light dark"><title>Back to the terminal</title>
<h1>Back to the terminal</h1>
<p>sara has the answer. Close this window, and go on in the terminal.</p>
</html>
`
	failedPage = `<!doctype html>
<html lang="en"><meta name="color-scheme" content="light dark"><title>Not connected</title>
<h1>Not connected</h1>
<p>Nothing was stored. The terminal shows the reason.</p>
</html>
`
	otherPage = `<!doctype html>
<html lang="en"><meta name="color-scheme" content="light dark"><title>Another attempt</title>
<h1>Another attempt</h1>
<p>This answer belongs to another attempt. Close this window, and open the address that the terminal printed last.</p>
</html>
`
)
