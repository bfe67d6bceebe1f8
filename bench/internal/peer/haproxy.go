package peer

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
)

//go:embed haproxy/haproxy.cfg
var haproxyConfiguration string // a template

// HAProxy is HAProxy as it comes, a gateway that can be had from Debian: its maps, its stick tables, its cache. It shows
// what limits cost that replicas share, for its own are of one process.
//
// Each request is logged as a line of JSON, unbuffered, which is what it can do.
type HAProxy struct{}

var _ Peer = HAProxy{}

// Name implements Peer.
func (HAProxy) Name() string { return "HAProxy" }

// About implements Peer.
func (HAProxy) About() string {
	return "hashed keys from a file, answers in memory by account and sorted parameters, JSON log; none of the three limits is in " +
		"Redis: each process counts alone, in sliding windows that forget at a restart, and its threads may admit one too many; no " +
		"scopes, no cache that replicas share, no collapsing of equal questions"
}

// Available implements Peer.
func (HAProxy) Available() error {
	_, err := haproxyProgram()
	if err != nil {
		return fmt.Errorf("apt-get install haproxy: %w", err)
	}
	return nil
}

// haproxyProgram finds HAProxy also where only root's PATH leads.
func haproxyProgram() (path string, err error) {
	if path, err = exec.LookPath("haproxy"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/haproxy")
}

// Start implements Peer. It has no use for Redis.
func (HAProxy) Start(ctx context.Context, s Setup) (_ *Running, err error) {
	program, err := haproxyProgram()
	if err != nil {
		return nil, err
	}
	r, port, err := s.open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start HAProxy: %w", err), r.Stop())
		}
	}()
	values := map[string]any{"Port": port, "Origin": r.origin.address, "Limits": s.Limits}
	if err := s.configure("haproxy.cfg", haproxyConfiguration, values); err != nil {
		return nil, err
	}
	if err := s.write("keys.map", fmt.Appendf(nil, "%X %s\n", sha256.Sum256([]byte(s.Key)), account)); err != nil {
		return nil, err
	}
	return r, r.serve(ctx, s, program, "-db", "-f", "haproxy.cfg")
}
