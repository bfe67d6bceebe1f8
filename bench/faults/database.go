package main

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// throttlePostgres lets PostgreSQL run only a fifth of the time, so each statement takes up to a quarter of a second.
func (w *world) throttlePostgres() {
	const stopped, running = 240 * time.Millisecond, 60 * time.Millisecond
	end := make(chan struct{})
	w.throttled = end
	w.background(func() error {
		for {
			stop := w.Postgres.Signal(syscall.SIGSTOP)
			<-time.After(stopped)
			if err := errors.Join(stop, w.Postgres.Signal(syscall.SIGCONT)); err != nil {
				return err
			}
			select {
			case <-end:
				return nil
			case <-time.After(running):
			}
		}
	})
}

func (w *world) unthrottlePostgres() error {
	close(w.throttled)
	w.jobs.Wait()
	return w.Postgres.Signal(syscall.SIGCONT) // including processes started meanwhile
}

// takeConnections takes all connections that PostgreSQL has left, for some seconds.
func (w *world) takeConnections() {
	const most = 100 // max_connections of the testbed
	for range most {
		w.background(func() error {
			_, err := w.Postgres.Query(context.Background(), "SELECT pg_sleep(6)") // fails once none are left
			return err
		})
	}
}
