package main

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// throttlePostgres lets PostgreSQL run for a fifth of the time only, so that each statement takes up to a quarter of a second.
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
	return w.Postgres.Signal(syscall.SIGCONT) // also processes that were started meanwhile
}

// takeConnections takes up what PostgreSQL has left of its connections, for some seconds.
func (w *world) takeConnections() {
	const most = 100 // max_connections of the testbed
	for range most {
		w.background(func() error {
			_, err := w.Postgres.Query(context.Background(), "SELECT pg_sleep(6)") // fails once there is none left
			return err
		})
	}
}
