package redisconn_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// A breakingCluster is a cluster of one node, which breaks the connection when it has received a script, and counts how often.
type breakingCluster struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	received map[string]int // by the name of the command
}

func startBreakingCluster(t *testing.T) *breakingCluster {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &breakingCluster{listener: listener, received: map[string]int{}}
	c.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.serving.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.serving.Wait()
	})
	return c
}

func (c *breakingCluster) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	address := c.listener.Addr().(*net.TCPAddr)
	for reader := bufio.NewReader(conn); ; {
		name, err := readCommand(reader)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n"
		switch name {
		case "cluster":
			reply = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", address.Port)
		case "command":
			reply = "*0\r\n"
		case "eval", "evalsha":
			c.mu.Lock()
			c.received[name]++
			c.mu.Unlock()
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads an array of strings, and returns the first one.
func readCommand(reader *bufio.Reader) (name string, err error) {
	var words, size int
	if _, err := fmt.Fscanf(reader, "*%d\r\n", &words); err != nil {
		return "", err
	}
	for n := range words {
		if _, err := fmt.Fscanf(reader, "$%d\r\n", &size); err != nil {
			return "", err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(reader, word); err != nil {
			return "", err
		}
		if n == 0 {
			name = strings.ToLower(string(word[:size]))
		}
	}
	return name, nil
}

// A script that is sent again after a broken connection may charge twice.
func TestScriptsAreSentToAClusterOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command string
		run     func(context.Context, redisconn.Client) error
	}{
		"by hash": {"evalsha", func(ctx context.Context, c redisconn.Client) error {
			return redisconn.ScriptsOnce(c).EvalSha(ctx, "hash", []string{"a"}).Err()
		}},
		"by source": {"eval", func(ctx context.Context, c redisconn.Client) error {
			return redisconn.ScriptsOnce(c).Eval(ctx, "return 1", []string{"a"}).Err()
		}},
		"in a pipeline": {"evalsha", func(ctx context.Context, c redisconn.Client) error {
			_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Process(ctx, redisconn.Once(redis.NewCmd(ctx, "evalsha", "hash", 1, "a")))
			})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := startBreakingCluster(t)
			address := cluster.listener.Addr().String()
			client, err := redisconn.Open("redis://"+address+"?addr="+address, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			err = test.run(t.Context(), client)
			_ = client.Close() // and with it the connections of the cluster
			if err == nil {
				t.Error("no error without a reply")
			}
			cluster.mu.Lock()
			defer cluster.mu.Unlock()
			if n := cluster.received[test.command]; n != 1 || len(cluster.received) != 1 {
				t.Errorf("the cluster received %v, want one %s", cluster.received, test.command)
			}
		})
	}
}
