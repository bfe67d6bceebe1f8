package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"sara/bench/internal/bigsite"
	"sara/bench/internal/cgroup"
	"sara/bench/internal/testbed"
	"sara/proxy/upstream/gscsim"
)

// start starts a testbed with one replica. The caller closes the testbed, which stops the replica.
func (o options) start(ctx context.Context, out io.Writer) (*testbed.Testbed, *testbed.Replica, error) {
	c := testbed.Config{Binary: o.binary, Site: gscsim.Site{Queries: 60, Pages: 30}, CacheBytes: o.cacheBytes}
	for site := range sites {
		c.Accounts = append(c.Accounts, testbed.Account{People: 1, Properties: []testbed.Property{{Domain: domain(site)}}})
	}
	// By default, sara lets a heap grow to 64 MiB before it collects garbage, which would hide the memory that a small cache keeps.
	replica := testbed.ReplicaConfig{Env: []string{"GOGC=100"}}
	if o.big {
		c.Upstream = bigAnswers
		replica.Env = []string{"GOMEMLIMIT=640MiB"}
		replica.Memory = shippedMemory
		if group, err := cgroup.New(shippedMemory); err != nil {
			replica.Memory = 0
			_, _ = fmt.Fprintf(out, "without a memory cgroup: %v\n\n", err)
		} else if err := group.Remove(); err != nil {
			return nil, nil, err
		}
	}
	b, err := testbed.Start(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	r, err := b.StartReplica(replica)
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return b, r, nil
}

// shippedMemory is the memory limit of a replica in deploy.
const shippedMemory = 768 << 20

// bigAnswers answers queries for all sites with the most rows that Search Console sends.
func bigAnswers(simulator http.Handler) http.Handler {
	const rows = 25_000
	site := bigsite.Long(rows)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bigsite.Domain(r) == "" {
			simulator.ServeHTTP(w, r)
			return
		}
		site.ServeHTTP(w, r)
	})
}

// killed adds to an error that the kernel killed the replica, if it did.
func killed(r *testbed.Replica, err error) error {
	if r.Group == nil {
		return err
	}
	if kills, readErr := r.Group.Kills(); readErr == nil && kills > 0 {
		return fmt.Errorf("sara was killed for memory: %w", err)
	}
	return err
}
