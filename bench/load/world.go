package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/testbed"
	"sara/bench/trace"
	"sara/proxy/upstream/gscsim"
)

// agencies is the trace, which also determines the accounts, people and properties of a run.
func agencies() trace.Config {
	return trace.Config{Seed: 1, Requests: 2000, Accounts: 4, People: 2, Properties: 8}
}

const (
	limitedDomain    = "limited.example" // the property of the last account, whose key has a low limit
	limitedPerMinute = 60

	// The properties of the first account with full upstream samples: slightly more queries than a table by clicks reads, and than
	// one upstream call returns.
	narrowDomain, narrowQueries = "narrow.example", 1300
	wideDomain, wideQueries     = "wide.example", 27_000
)

// The replicas. Except for the first, each is started when a scenario needs it.
const (
	defaults    = iota // the default settings
	smallMemory        // a memory cache of 1 MiB, so that answers come from Redis
	proxied            // reads the client's address from a header
	unread             // the default settings; it has read no archive yet
	replicas
)

// addressHeader has the client's address for the proxied replica.
const addressHeader = "X-Load-Address"

// A world is a running sara, with the data that the scenarios request. It belongs to one goroutine, except for its sources.
type world struct {
	*measure.Rig
	trace    trace.Config
	lastDay  time.Time // final in every time zone, even if the day changes during the run
	replicas [replicas]int
	fresh    atomic.Int64 // numbers requests that must differ from all earlier ones

	archived, yearsArchived bool

	weighing atomic.Bool  // whether upstream bodies are weighed
	heaviest atomic.Int64 // bytes of the largest upstream body that was weighed, without compression
}

func newWorld(ctx context.Context, binary string, c trace.Config) (_ *world, err error) {
	w := &world{trace: c, lastDay: time.Now().UTC().AddDate(0, 0, -4)}
	if w.trace.Anchor, err = trace.Anchor(time.Now()); err != nil {
		return nil, err
	}
	w.Rig, err = measure.Start(ctx, testbed.Config{
		Binary: binary, Accounts: accounts(c), Site: gscsim.Site{Queries: 400, Pages: 100}, Replicas: 1, Log: os.DevNull,
		Upstream: func(simulator http.Handler) http.Handler { return w.weigh(record(simulator)) },
	})
	return w, err
}

// accounts returns those of the trace, and one with a low limit. The first has some extra properties.
func accounts(c trace.Config) []testbed.Account {
	low := testbed.Account{People: 1, PerMinute: limitedPerMinute, Properties: []testbed.Property{{Domain: limitedDomain}}}
	all := append(testbed.AccountsOf(c), low)
	more := []testbed.Property{{Domain: narrowDomain, Queries: narrowQueries}, {Domain: wideDomain, Queries: wideQueries}}
	for n := range years {
		more = append(more, testbed.Property{Domain: yearDomain(n)})
	}
	all[0].Properties = append(all[0].Properties, more...)
	return all
}

// address returns the host:port of a replica, and starts it if it is not running.
func (w *world) address(which int) (string, error) {
	if which != defaults && w.replicas[which] == 0 {
		flags := map[int][]string{smallMemory: {"--cache-bytes=1MiB"}, proxied: {"--trusted-proxy-header=" + addressHeader}}
		if err := w.AddReplica(flags[which]...); err != nil {
			return "", err
		}
		w.replicas[which] = len(w.Replicas) - 1
	}
	return w.Replicas[w.replicas[which]].Address, nil
}

// request is a request by one person of an account.
func (w *world) request(account, person int, path string) loadgen.Request {
	return loadgen.Get(path, "Authorization", "Bearer "+w.Keys[account][person])
}

// table returns the path of a table of a property. Days are counted back from the last day.
func (w *world) table(domain, table string, firstBack, lastBack, limit int, more ...string) string {
	path := fmt.Sprintf("/v1/properties/%s/%s?start_date=%s&end_date=%s&limit=%d", domain, table, w.day(firstBack), w.day(lastBack), limit)
	return path + strings.Join(more, "")
}

func (w *world) day(back int) string { return w.lastDay.AddDate(0, 0, -back).Format(time.DateOnly) }

// ask returns one answer, once as it was received, with its headers, and once only its body.
func ask(ctx context.Context, address string, request loadgen.Request) (answer, body []byte, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(request); err != nil {
		return nil, nil, err
	}
	var received bytes.Buffer
	response, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &received)), nil)
	if err != nil {
		return nil, nil, err
	}
	if body, err = io.ReadAll(response.Body); err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the answer is not a 200: %.500s", received.Bytes())
	}
	return received.Bytes(), body, nil
}
