package peer

import (
	"errors"
	"net"
	"net/http"
	"strconv"
)

// An origin is the server in this process from which a peer fetches the answer once.
type origin struct {
	address string
	server  *http.Server
	served  chan error
}

// serveAnswer starts an origin.
func serveAnswer(body []byte) (*origin, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // the client may have gone
	}
	o := &origin{address: listener.Addr().String(), server: &http.Server{Handler: http.HandlerFunc(answer)}, served: make(chan error, 1)}
	go func() { o.served <- o.server.Serve(listener) }()
	return o, nil
}

func (o *origin) close() error {
	err := o.server.Close()
	if served := <-o.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
