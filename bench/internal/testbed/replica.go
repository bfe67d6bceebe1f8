package testbed

import (
	"errors"
	"slices"

	"sara/bench/internal/cgroup"
	"sara/bench/internal/subprocess"
)

// A Replica is one process of sara.
type Replica struct {
	Address  string // host:port
	AdminURL string
	PID      int
	Ended    <-chan struct{} // closed when it has ended
	Group    *cgroup.Group   // nil if its memory is not bounded

	process *subprocess.Process
}

// ReplicaConfig is what is specific to a replica.
type ReplicaConfig struct {
	Flags  []string // of sara serve
	Env    []string // in addition to the testbed's, NAME=value
	Memory int64    // bound in bytes, by a cgroup; 0 for none
}

// AddReplica starts one more replica, with additional flags of sara serve, and waits until it listens.
func (b *Testbed) AddReplica(flags ...string) error {
	r, err := b.StartReplica(ReplicaConfig{Flags: flags})
	if err == nil {
		b.Replicas = append(b.Replicas, *r)
	}
	return err
}

// StartReplica starts a replica that is not one of Replicas, and waits until it listens. It ends with StopReplica, or with the
// testbed.
func (b *Testbed) StartReplica(c ReplicaConfig) (_ *Replica, err error) {
	r := &Replica{}
	process := subprocess.Config{Program: b.binary, Env: append(b.env[:len(b.env):len(b.env)], c.Env...), Stderr: b.log,
		Args: append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, c.Flags...)}
	if c.Memory > 0 {
		if r.Group, err = cgroup.New(c.Memory); err != nil {
			return nil, err
		}
		process.Cgroup = r.Group.Procs()
		b.groups = append(b.groups, r.Group)
	}
	if r.process, err = b.startProcess(process); err != nil {
		return nil, err
	}
	r.PID, r.Ended = r.process.PID, r.process.Ended
	if r.Address, err = r.process.Await("listening on http://"); err != nil {
		return nil, errors.Join(err, b.forget(r.process))
	}
	if r.AdminURL, err = r.process.Await("admin listening on "); err != nil {
		return nil, errors.Join(err, b.forget(r.process))
	}
	return r, nil
}

// StopReplica stops a replica that StartReplica has started, and removes its group. Its ended error is how the process failed,
// before or now.
func (b *Testbed) StopReplica(r *Replica) (ended, err error) {
	ended = b.forget(r.process)
	if r.Group != nil {
		b.groups = slices.DeleteFunc(b.groups, func(other *cgroup.Group) bool { return other == r.Group })
		err = r.Group.Remove()
	}
	return ended, err
}
