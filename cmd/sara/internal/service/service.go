// Package service runs a server: the listeners of the public API and of the admin endpoints, the background jobs, the budgets
// and the logs, from the start to a graceful shutdown.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

const (
	// drainTimeout bounds the requests in flight at a shutdown. The server's own limit for a request is lower.
	drainTimeout = 30 * time.Second
	// adminDrainTimeout bounds scrapes and profiles in flight. It is short, since losing them does no harm.
	adminDrainTimeout = time.Second
)

// Service is the public API and the admin endpoints on their listeners.
type Service struct {
	Server        *proxy.Server
	Background    Background
	Public, Admin net.Listener
	Delay         time.Duration // between becoming not ready and closing the listener
	Log           *slog.Logger
}

// Background is the work beside the server. Each function runs until its context ends.
type Background struct {
	Invalidations Invalidations               // nil if there is no Redis
	Jobs          []func(ctx context.Context) // until the service begins to stop; nil for one that is off
	Serving       []func(ctx context.Context) // until the last request is answered
}

// Run serves until ctx ends, and then shuts down gracefully, without cutting a request off: the service becomes not ready,
// keeps serving for the delay, drains the requests in flight, and closes the admin endpoints last. It calls ready once while it
// serves; an error of ready stops the service.
func (s *Service) Run(ctx context.Context, ready func(context.Context) error) error {
	admin := s.newAdmin()
	interrupt := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Server.Serve(s.Public) })
	group.Go(func() error { return serveAdmin(admin, s.Admin) })
	group.Go(func() error {
		if s.Background.Invalidations != nil {
			s.Background.Invalidations(ctx, s.Server)
		}
		return nil
	})
	serving, drained := context.WithCancel(context.WithoutCancel(ctx))
	start := func(ctx context.Context, jobs []func(context.Context)) {
		for _, job := range jobs {
			if job != nil {
				group.Go(func() error { job(ctx); return nil })
			}
		}
	}
	start(serving, s.Background.Serving)
	start(ctx, s.Background.Jobs)
	group.Go(func() error {
		if err := ready(ctx); interrupt.Err() == nil {
			return err
		}
		return nil // interrupted
	})
	group.Go(func() error {
		defer drained()
		<-ctx.Done()
		delay := s.Delay
		if interrupt.Err() == nil { // it stops because of an error
			delay = 0
		}
		return s.stop(context.WithoutCancel(ctx), admin, delay)
	})
	return group.Wait()
}

// newAdmin returns the server of the admin endpoints.
func (s *Service) newAdmin() *http.Server {
	return &http.Server{
		Handler:           s.Server.Admin(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a CPU profile takes as long as its client asks for
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
}

func serveAdmin(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the admin endpoints on %s: %w", listener.Addr(), err)
	}
	return nil
}

func (s *Service) stop(ctx context.Context, admin *http.Server, delay time.Duration) error {
	s.Log.InfoContext(ctx, "stopping", slog.Duration("delay", delay))
	s.Server.Drain()
	<-time.After(delay)
	draining, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := s.Server.Shutdown(draining)
	Close(s.Public) // ends Serve even if it has not begun yet
	ctx, cancelAdmin := context.WithTimeout(ctx, adminDrainTimeout)
	defer cancelAdmin()
	if admin.Shutdown(ctx) != nil { // the drain timed out
		err = errors.Join(err, admin.Close())
	}
	s.Log.InfoContext(ctx, "stopped")
	return err
}

// Listen opens a listener. setting is the name of its address in errors.
func Listen(setting, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, settings.Errorf(setting, "%s is already in use; stop the program that uses it, or choose another address, "+
			"such as 127.0.0.1:0 for any free port", address)
	case errors.Is(err, syscall.EACCES):
		return nil, settings.Errorf(setting, "this user may not listen on %s; choose a port above 1023, such as 127.0.0.1:8080", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, settings.Errorf(setting, "%s is not an address of this machine; choose one that is, such as 127.0.0.1:8080, "+
			"or 0.0.0.0:8080 for all addresses", address)
	case err != nil:
		return nil, settings.Errorf(setting, "%v; choose an address like 127.0.0.1:8080", err)
	}
	return listener, nil
}

// Close closes listeners. It accepts nil and closed ones.
func Close(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close()
		}
	}
}

// NewRegistry returns a registry with the metrics of the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
