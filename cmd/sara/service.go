package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

const (
	// drainLimit is how long the requests under way may take to finish; the server bounds each of them below it.
	drainLimit = 30 * time.Second
	// adminStopLimit is for scrapes and profiles, which nobody misses.
	adminStopLimit = time.Second
)

// A service is the public API and its admin endpoints on their listeners.
type service struct {
	server        *proxy.Server
	background    background
	public, admin net.Listener
	delay         time.Duration // between becoming unready and refusing connections
	log           *slog.Logger
}

// background is what goes on beside serving, until its context ends.
type background struct {
	changes changes                     // nil: nobody else changes anything
	daily   []func(ctx context.Context) // the daily runs; nil for one that is off
}

// run serves until ctx ends, and then stops so that no request is cut off: the service becomes unready, answers on for the
// delay, finishes what is under way, and closes the admin endpoints last. ready is called once while it serves; its error
// stops the service.
func (s *service) run(ctx context.Context, ready func(context.Context) error) error {
	admin := &http.Server{
		Handler:           s.server.Admin(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes as long as it is asked to
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	told := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.server.Serve(s.public) })
	group.Go(func() error { return serveAdmin(admin, s.admin) })
	group.Go(func() error {
		if s.background.changes != nil {
			s.background.changes(ctx, s.server.Invalidate)
		}
		return nil
	})
	for _, daily := range s.background.daily {
		group.Go(func() error {
			if daily != nil {
				daily(ctx)
			}
			return nil
		})
	}
	group.Go(func() error {
		if err := ready(ctx); told.Err() == nil {
			return err
		}
		return nil // it was interrupted
	})
	group.Go(func() error {
		<-ctx.Done()
		delay := s.delay
		if told.Err() == nil { // it stops because something broke
			delay = 0
		}
		return s.stop(context.WithoutCancel(ctx), admin, delay)
	})
	return group.Wait()
}

func serveAdmin(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the admin endpoints on %s: %w", listener.Addr(), err)
	}
	return nil
}

func (s *service) stop(ctx context.Context, admin *http.Server, delay time.Duration) error {
	s.log.InfoContext(ctx, "stopping", slog.Duration("delay", delay))
	s.server.Drain()
	<-time.After(delay)
	draining, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	err := s.server.Shutdown(draining)
	closeListeners(s.public) // which ends Serve even if it begins only now
	ctx, cancelAdmin := context.WithTimeout(ctx, adminStopLimit)
	defer cancelAdmin()
	if admin.Shutdown(ctx) != nil { // somebody is still at it
		err = errors.Join(err, admin.Close())
	}
	s.log.InfoContext(ctx, "stopped")
	return err
}

// listen opens a listener. flag is how people choose its address.
func listen(flag, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, settings.Errorf(flag, "%s is taken by another program; stop that one, or choose another address, such as 127.0.0.1:0 for any free port", address)
	case errors.Is(err, syscall.EACCES):
		return nil, settings.Errorf(flag, "%s is not for this user to listen on; choose a port above 1023, such as 127.0.0.1:8080", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, settings.Errorf(flag, "%s is no address of this machine; choose one that is, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all that it has", address)
	case err != nil:
		return nil, settings.Errorf(flag, "%v; choose an address like 127.0.0.1:8080", err)
	}
	return listener, nil
}

// closeListeners closes listeners that may be closed already, which is no error.
func closeListeners(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close()
		}
	}
}
