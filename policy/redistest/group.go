package redistest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"sara/policy/redisconn"
)

// A Group is a cluster, or a master with its sentinel.
type Group struct {
	Nodes []*Server // the masters
	url   string
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
	master := Single(tb)
	sentinel := server(tb)
	// A sentinel needs a configuration file that it can rewrite.
	const file = "sentinel.conf"
	config := fmt.Sprintf("bind 127.0.0.1\nport %s\nsentinel monitor sara 127.0.0.1 %s 1\n", sentinel.port, master.port)
	if err := os.WriteFile(filepath.Join(sentinel.dir, file), []byte(config), 0o600); err != nil {
		tb.Fatalf("configure a sentinel: %v", err)
	}
	sentinel.arguments = []string{file, "--sentinel"}
	sentinel.Start()
	return &Group{Nodes: []*Server{master}, url: sentinel.URL() + "?master_name=sara"}
}

func (s *Server) do(command ...any) {
	s.tb.Helper()
	client := s.control()
	defer func() { _ = client.Close() }()
	if err := client.Do(s.tb.Context(), command...).Err(); err != nil {
		s.tb.Fatalf("%v: %v", command, err)
	}
}
