package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"sara/bench/internal/balancer"
	"sara/bench/internal/testbed"
)

// settleTime is how long after a start all replicas have certainly counted the new one, by its heartbeats. Until then, the others' shares
// are still larger.
const settleTime = 4 * time.Second

func (w *world) startReplica() (*testbed.Replica, error) {
	defer func() { w.settled = time.Now().Add(settleTime) }()
	env := []string{fmt.Sprintf("SARA_REPLICAS=%d", replicas), "SARA_SHUTDOWN_DELAY=1s", "SARA_CLOCK_OFFSET=" + w.offset.String()}
	if !w.pooled {
		env = append(env, "SARA_DATABASE_URL="+w.Postgres.URL+"&pool_max_conns=10") // in the form documented for production
	}
	return w.StartReplica(testbed.ReplicaConfig{Env: env})
}

// balance tells the balancer which replicas run.
func (w *world) balance() {
	var backends []balancer.Backend
	for _, r := range w.running {
		if r != nil {
			backends = append(backends, balancer.Backend{Address: r.Address, Admin: r.AdminURL})
		}
	}
	w.balancer.Set(backends)
}

// replace ends a replica, if it is still running, and starts another one. If surge is set, the new one is ready first, as in a rolling
// update.
func (w *world) replace(i int, surge bool) error {
	old := w.running[i]
	if !surge {
		_, _ = w.StopReplica(old) // it may have been killed
	}
	r, err := w.startReplica()
	if err != nil {
		return err
	}
	w.running[i] = r
	if !surge {
		w.balance()
		return nil
	}
	if err := w.awaitReady(r); err != nil {
		_, _ = w.StopReplica(old)
		return err
	}
	w.balancer.Set(append(w.backends(), balancer.Backend{Address: old.Address, Admin: old.AdminURL}))
	_, err = w.StopReplica(old)
	w.balance()
	return err
}

// awaitReady waits until balancers may send requests to a replica.
func (w *world) awaitReady(r *testbed.Replica) error {
	const longest, every = 10 * time.Second, 20 * time.Millisecond
	last := ""
	for begun := time.Now(); time.Since(begun) < longest; <-time.After(every) {
		response, err := w.client.Get(r.AdminURL + "/readyz")
		if err != nil {
			return err
		}
		const most = 1 << 10
		text, err := io.ReadAll(io.LimitReader(response.Body, most))
		if closed := response.Body.Close(); err != nil || closed != nil {
			return errors.Join(err, closed)
		}
		if response.StatusCode == http.StatusOK {
			return nil
		}
		last = strings.TrimSpace(string(text))
	}
	return fmt.Errorf("after %v a replica is %s", longest, last)
}

func (w *world) backends() (all []balancer.Backend) {
	for _, r := range w.running {
		all = append(all, balancer.Backend{Address: r.Address, Admin: r.AdminURL})
	}
	return all
}

// restartAll restarts all replicas, one after the other.
func (w *world) restartAll() error {
	for i := range w.running {
		if err := w.replace(i, true); err != nil {
			return err
		}
	}
	return nil
}

// takeDescriptors makes a replica run out of descriptors: connections take all that it may have.
func (w *world) takeDescriptors() error {
	const files = 64
	if err := limitFiles(w.running[0], files); err != nil {
		return err
	}
	for range 2 * files {
		conn, err := net.DialTimeout("tcp", w.running[0].Address, time.Second)
		if err != nil {
			break // the backlog is full
		}
		w.held = append(w.held, conn)
	}
	return nil
}

func (w *world) returnDescriptors() error {
	var errs []error
	for _, conn := range w.held {
		errs = append(errs, conn.Close())
	}
	w.held = nil
	select {
	case <-w.running[0].Ended:
		errs = append(errs, errors.New("the replica has ended"))
	default:
	}
	return errors.Join(append(errs, limitFiles(w.running[0], 0))...)
}

// revive replaces replicas that have ended, which no fault may leave behind, and returns an error if there were any.
func (w *world) revive() error {
	var errs []error
	for i, r := range w.running {
		select {
		case <-r.Ended:
			ended, _ := w.StopReplica(r)
			errs = append(errs, fmt.Errorf("replica %d has ended: %w", i, cmp.Or(ended, errNoFailure)))
			started, err := w.startReplica()
			if err == nil {
				w.running[i] = started
			}
			errs = append(errs, err)
		default:
		}
	}
	w.balance()
	return errors.Join(errs...)
}

var errNoFailure = errors.New("without an error")

// beforeMidnight is how long before midnight, by their clocks, restartBeforeMidnight begins to restart the replicas.
const beforeMidnight = 15 * time.Second

// restartBeforeMidnight restarts the replicas with clocks that are about to reach midnight UTC.
func (w *world) restartBeforeMidnight() error {
	const day = 24 * time.Hour
	now := time.Now().UTC()
	w.offset = now.Truncate(day).Add(day - beforeMidnight).Sub(now).Round(time.Millisecond)
	return w.restartAll()
}

// restartInTime restarts the replicas with the real time.
func (w *world) restartInTime() error {
	w.offset = 0
	return w.restartAll()
}
