package redistest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// A Group is several servers that work together.
type Group struct {
	Nodes []*Server // the masters
	url   string
}

// URL returns the address as policy.OpenRedis takes it.
func (g *Group) URL() string { return g.url }

// Cluster starts a cluster of three masters without replicas, which serves nothing while one of them is away.
func Cluster(tb testing.TB) *Group {
	tb.Helper()
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
	for _, node := range g.Nodes {
		node.await("cluster_state:ok", "cluster", "info")
	}
	g.url = g.Nodes[0].URL() + "?" + query.Encode()
	return g
}

// Sentinel starts a master with a sentinel that knows it.
func Sentinel(tb testing.TB) *Group {
	tb.Helper()
	master := Single(tb)
	sentinel := server(tb)
	// A sentinel wants a file of its own, where it writes what it finds out.
	const file = "sentinel.conf"
	config := fmt.Sprintf("bind 127.0.0.1\nport %s\nsentinel monitor sara 127.0.0.1 %s 1\n", sentinel.port, master.port)
	if err := os.WriteFile(filepath.Join(sentinel.dir, file), []byte(config), 0o600); err != nil {
		tb.Fatalf("configure a sentinel: %v", err)
	}
	sentinel.arguments = []string{file, "--sentinel"}
	sentinel.Start()
	return &Group{Nodes: []*Server{master}, url: sentinel.URL() + "?master_name=sara"}
}

func (s *Server) do(question ...any) {
	s.tb.Helper()
	client := s.control()
	defer func() { _ = client.Close() }()
	if err := client.Do(s.tb.Context(), question...).Err(); err != nil {
		s.tb.Fatalf("%v: %v", question, err)
	}
}
