package redistest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"sara/policy/redisconn"
)

// A Group is a cluster, or a master with its sentinels.
type Group struct {
	Nodes     []*Server // the masters; with sentinels, the master and then its replicas
	Sentinels []*Server
	url       string
}

// URL returns the group's URL for redisconn.Open.
func (g *Group) URL() string { return g.url }

// Client returns a client of the group, as Open does.
func (g *Group) Client() redisconn.Client {
	tb := g.Nodes[0].tb
	tb.Helper()
	return Open(tb, g.url)
}

// OnBoth runs a test on one server and, unless tests are short, on a cluster.
func OnBoth(t *testing.T, test func(t *testing.T, connect func() redisconn.Client)) {
	t.Run("on one Redis", func(t *testing.T) { test(t, Single(t).Client) })
	t.Run("on a cluster", func(t *testing.T) { test(t, Cluster(t).Client) })
}

// Cluster starts a cluster of three masters without replicas, which serves nothing while one of them is down. If tests are short, it skips
// this one.
func Cluster(tb testing.TB) *Group {
	tb.Helper()
	return StartCluster(tb)()
}

// StartCluster starts a cluster like Cluster without waiting until it serves. Redis takes two seconds for that, whatever its
// settings, so a test does something else in the meantime and then calls wait, on the goroutine of tb.
func StartCluster(tb testing.TB) (wait func() *Group) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("a cluster takes two seconds to start")
	}
	const masters, slots = 3, 16384
	g := &Group{}
	query := url.Values{}
	for range masters {
		bus := freePort(tb)
		node := Single(tb, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", bus, "--cluster-node-timeout", "1000")
		n := len(g.Nodes)
		node.do("cluster", "addslotsrange", n*slots/masters, (n+1)*slots/masters-1)
		if n > 0 {
			first := g.Nodes[0]
			node.do("cluster", "meet", "127.0.0.1", first.port, first.directive("--cluster-port"))
			query.Add("addr", node.Addr())
		}
		g.Nodes = append(g.Nodes, node)
	}
	g.url = g.Nodes[0].URL() + "?" + query.Encode()
	return func() *Group {
		tb.Helper()
		for _, node := range g.Nodes {
			node.await("cluster_state:ok", "cluster", "info")
		}
		return g
	}
}

// Sentinel starts a master and a sentinel that monitors it.
func Sentinel(tb testing.TB) *Group {
	tb.Helper()
	return sentinels(tb, 1, Single(tb))
}

// Sentinels starts a master and three sentinels that monitor it.
func Sentinels(tb testing.TB) *Group {
	tb.Helper()
	return sentinels(tb, 3, Single(tb))
}

// Failover starts a master with a replica, and a sentinel that makes the replica the master within seconds if that fails. If tests are
// short, it skips this one.
func Failover(tb testing.TB) *Group {
	tb.Helper()
	if testing.Short() {
		tb.Skip("a failover takes two seconds")
	}
	master := Single(tb, "--repl-diskless-sync-delay", "0")
	return sentinels(tb, 1, master, Single(tb, "--replicaof", "127.0.0.1 "+master.port))
}

// sentinels starts sentinels that monitor a master and its replicas, and waits until they know of these and of each other.
func sentinels(tb testing.TB, number int, nodes ...*Server) *Group {
	tb.Helper()
	g := &Group{Nodes: nodes}
	query := url.Values{"master_name": {"sara"}}
	for range number {
		s := server(tb)
		// A sentinel needs a configuration file that it can rewrite.
		const file = "sentinel.conf"
		config := fmt.Sprintf("bind 127.0.0.1\nport %s\nsentinel monitor sara 127.0.0.1 %s %d\nsentinel down-after-milliseconds sara 500\n"+
			"sentinel failover-timeout sara 1000\n", s.port, nodes[0].port, number/2+1)
		if err := os.WriteFile(filepath.Join(s.dir, file), []byte(config), 0o600); err != nil {
			tb.Fatalf("configure a sentinel: %v", err)
		}
		s.arguments = []string{file, "--sentinel"}
		s.Start()
		s.do("sentinel", "debug", "info-period", 100, "ping-period", 100, "publish-period", 100) // instead of every one to ten seconds
		if g.Sentinels = append(g.Sentinels, s); len(g.Sentinels) > 1 {
			query.Add("addr", s.Addr())
		}
	}
	for _, s := range g.Sentinels {
		s.await(fmt.Sprintf("slaves=%d,sentinels=%d", len(nodes)-1, number), "info", "sentinel")
	}
	g.url = g.Sentinels[0].URL() + "?" + query.Encode()
	return g
}

func (s *Server) do(command ...any) {
	s.tb.Helper()
	client := s.control()
	defer func() { _ = client.Close() }()
	if err := client.Do(s.tb.Context(), command...).Err(); err != nil {
		s.tb.Fatalf("%v: %v", command, err)
	}
}
