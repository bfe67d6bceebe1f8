package peer

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os/exec"
)

//go:embed haproxy/haproxy.cfg
var haproxyConfiguration string // a template

//go:embed haproxy/limits.lua
var haproxyLimits []byte

// HAProxy is HAProxy with its own maps and cache, and either kind of limits. Each request is logged as a line of JSON,
// without a buffer, because HAProxy has none.
type HAProxy struct {
	// Redis keeps the limits in Redis, with a script of ours. Otherwise they are in HAProxy's own stick tables: the difference is
	// the cost of limits that replicas share.
	Redis bool
}

var _ Peer = HAProxy{}

// Name implements Peer.
func (h HAProxy) Name() string {
	if h.Redis {
		return "HAProxy+Lua+Redis"
	}
	return "HAProxy alone"
}

// About implements Peer.
func (h HAProxy) About() string {
	limits := "the three limits are not in Redis: each process counts alone, in sliding windows that a restart resets, and its " +
		"threads may admit one request too many"
	if h.Redis {
		limits = "three limits exact in Redis by one script, the same for all keys, over a new connection for each request, because HAProxy 2.6 " +
			"loses wakeups on kept connections; 503 without Redis"
	}
	return "hashed keys from a file, answers in memory by account and sorted parameters, JSON log; " + limits +
		"; no scopes, no shared cache, no request collapsing, no compression"
}

// Available implements Peer.
func (HAProxy) Available() error {
	if _, err := haproxyProgram(); err != nil {
		return fmt.Errorf("apt-get install haproxy: %w", err)
	}
	return nil
}

// haproxyProgram finds HAProxy, even in a folder that is only in root's PATH.
func haproxyProgram() (path string, err error) {
	if path, err = exec.LookPath("haproxy"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/haproxy")
}

// Start implements Peer.
func (h HAProxy) Start(ctx context.Context, s Setup) (_ *Running, err error) {
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
	host, redisPort, err := net.SplitHostPort(s.Redis)
	if err != nil {
		return nil, fmt.Errorf("address of Redis: %w", err)
	}
	values := map[string]any{"Port": port, "Origin": r.origin.address, "Limits": s.Limits, "Redis": h.Redis, "Host": host, "RedisPort": redisPort,
		"Digest": fmt.Sprintf("%x", sha1.Sum(admitScript))}
	key := fmt.Appendf(nil, "%X %s\n", sha256.Sum256([]byte(s.Key)), account)
	err = errors.Join(s.configure("haproxy.cfg", haproxyConfiguration, values), s.write("keys.map", key), s.write("limits.lua", haproxyLimits),
		s.write("admit.lua", admitScript))
	if err != nil {
		return nil, err
	}
	// HAProxy cannot log to a named file, and standard error is for problems.
	return r, r.serve(ctx, s, "sh", "-c", `exec "$@" 3>>"$0"`, s.Log, program, "-db", "-f", "haproxy.cfg")
}
