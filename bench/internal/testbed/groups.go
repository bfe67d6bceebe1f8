package testbed

import (
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

// A Group is how several Redis servers are combined; empty: there is a single server.
type Group string

const (
	Sentinel Group = "Sentinel" // a master with a replica, and a sentinel that promotes the replica
	Cluster  Group = "Cluster"  // three masters, each with a replica
)

// MasterName is how the sentinel names the master.
const MasterName = "sara"

// startGroup starts the servers of a group, and returns its URL.
func (b *Testbed) startGroup(g Group, args []string) (address string, err error) {
	switch g {
	case Sentinel:
		return b.startSentinel(args)
	case Cluster:
		return b.startCluster(args)
	default:
		if b.Redis, err = b.AddRedis(args...); err != nil {
			return "", err
		}
		return "redis://" + b.Redis.Address, nil
	}
}

// addNode starts one more server of the group, with a folder of its own.
func (b *Testbed) addNode(args []string, more ...string) error {
	name := fmt.Sprintf("redis-%d", len(b.Nodes))
	own := []string{"--dbfilename", name + ".rdb", "--appenddirname", name + ".log"}
	r, err := b.AddRedis(append(append(own, args...), more...)...)
	b.Nodes = append(b.Nodes, r)
	return err
}

func (b *Testbed) startSentinel(args []string) (address string, err error) {
	if err := b.addNode(args); err != nil {
		return "", err
	}
	b.Redis = b.Nodes[0]
	host, port, err := net.SplitHostPort(b.Redis.Address)
	if err != nil {
		return "", err
	}
	if err := b.addNode(args, "--replicaof", host+" "+port); err != nil {
		return "", err
	}
	// A sentinel needs a file that it can rewrite.
	file, err := b.write("sentinel.conf", fmt.Appendf(nil, "sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", MasterName, host, port))
	if err != nil {
		return "", err
	}
	if b.Monitor, err = b.addRedis(file, "--sentinel"); err != nil {
		return "", err
	}
	if err := b.awaitRedis(b.Monitor, "slaves=1", "INFO", "sentinel"); err != nil {
		return "", err
	}
	return "redis://" + b.Monitor.Address + "?master_name=" + MasterName, nil
}

func (b *Testbed) startCluster(args []string) (address string, err error) {
	const masters = 3
	command := []string{"--cluster", "create"}
	query := url.Values{}
	for n := range 2 * masters {
		bus, err := freeAddress()
		if err != nil {
			return "", err
		}
		_, port, err := net.SplitHostPort(bus)
		if err != nil {
			return "", err
		}
		if err := b.addNode(args, "--cluster-enabled", "yes", "--cluster-config-file", fmt.Sprintf("nodes-%d.conf", n),
			"--cluster-port", port, "--cluster-node-timeout", "1000"); err != nil {
			return "", err
		}
		command = append(command, b.Nodes[n].Address)
		if n > 0 {
			query.Add("addr", b.Nodes[n].Address)
		}
	}
	b.Redis = b.Nodes[0]
	command = append(command, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.Command("redis-cli", command...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("create a Redis cluster: %w\n%s", err, out)
	}
	for _, node := range b.Nodes {
		if err := b.awaitRedis(node, "cluster_state:ok", "CLUSTER", "INFO"); err != nil {
			return "", err
		}
	}
	return "redis://" + b.Redis.Address + "?" + query.Encode(), nil
}

// awaitRedis waits until a command prints a text.
func (b *Testbed) awaitRedis(r *Redis, text string, command ...string) error {
	host, port, err := net.SplitHostPort(r.Address)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(50 * time.Millisecond) {
		out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, command...)...).CombinedOutput()
		if err == nil && strings.Contains(string(out), text) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s of Redis does not print %q: %w\n%s", strings.Join(command, " "), text, err, out)
		}
	}
}
