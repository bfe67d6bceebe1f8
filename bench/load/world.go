package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"sara/bench/internal/stage"
	"sara/bench/internal/trial"
	"sara/bench/internal/wire"
	"sara/bench/trace"
	"sara/proxy/upstream/gscsim"
)

// agencies is the trace, and with it the accounts, people and properties of a whole run.
func agencies() trace.Config {
	return trace.Config{Seed: 1, Requests: 2000, Accounts: 4, People: 2, Properties: 8}
}

const (
	stormDomain    = "storm.example" // the property of the account whose keys are admitted little, which is the last one
	stormPerMinute = 60
)

// The replicas. Those but the first are started when a scenario wants them.
const (
	roomy     = iota // as production has it
	forgetful        // its memory holds next to nothing, so that it answers from Redis
	edgeless         // it believes the header that names the client's address
	replicas
)

// addressHeader is where the edgeless replica finds a client's address.
const addressHeader = "X-Load-Address"

// A world is a running sara with what scenarios ask of it. It is for one goroutine, but for its sources.
type world struct {
	*trial.Rig
	trace    trace.Config
	lastDay  time.Time // final everywhere, and still so if the day changes meanwhile
	replicas [replicas]int
	archived bool
	fresh    atomic.Int64 // numbers of questions that nobody asked before
}

func newWorld(ctx context.Context, c trace.Config) (_ *world, err error) {
	w := &world{trace: c, lastDay: time.Now().UTC().AddDate(0, 0, -4)}
	if w.trace.Anchor, err = trace.Anchor(time.Now()); err != nil {
		return nil, err
	}
	w.Rig, err = trial.Start(ctx, stage.Config{
		Accounts: accounts(c), Site: gscsim.Site{Queries: 400, Pages: 100}, Replicas: 1, Log: os.DevNull,
	})
	return w, err
}

// accounts are those of the trace, and the one of the storm.
func accounts(c trace.Config) []stage.Account {
	accounts := make([]stage.Account, c.Accounts, c.Accounts+1)
	for i := range accounts {
		accounts[i].People = c.People
	}
	for i := range c.Properties {
		p := stage.Property{Domain: trace.Domain(i)}
		if c.HasSegments(i) {
			p.BrandTerms, p.PageGroups = []string{trace.BrandTerm(i)}, trace.PageGroups()
		}
		owner := &accounts[c.Account(i)]
		owner.Properties = append(owner.Properties, p)
	}
	return append(accounts, stage.Account{People: 1, PerMinute: stormPerMinute, Properties: []stage.Property{{Domain: stormDomain}}})
}

// address returns the host and port of a replica, which it starts if it does not run yet.
func (w *world) address(which int) (string, error) {
	if which != roomy && w.replicas[which] == 0 {
		flags := map[int][]string{forgetful: {"--cache-bytes=1MiB"}, edgeless: {"--trusted-proxy-header=" + addressHeader}}
		if err := w.Stage.AddReplica(flags[which]...); err != nil {
			return "", err
		}
		w.replicas[which] = len(w.Stage.Replicas) - 1
	}
	return w.Address(w.replicas[which])
}

// request is a request by a person of an account.
func (w *world) request(account, person int, path string, headers ...string) []byte {
	return wire.Get(path, append(headers, "Authorization: Bearer "+w.Stage.Keys[account][person])...)
}

// table is the path of a table of a property. The days are counted back from the last one.
func (w *world) table(domain, table string, firstBack, lastBack, limit int, more ...string) string {
	path := fmt.Sprintf("/v1/properties/%s/%s?start_date=%s&end_date=%s&limit=%d", domain, table, w.day(firstBack), w.day(lastBack), limit)
	return path + strings.Join(more, "")
}

func (w *world) day(back int) string { return w.lastDay.AddDate(0, 0, -back).Format(time.DateOnly) }

// ask returns one answer as it came over the wire, and its body.
func ask(ctx context.Context, address string, request []byte) (answer, body []byte, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(request); err != nil {
		return nil, nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, nil, err
	}
	if body, err = io.ReadAll(response.Body); err != nil {
		return nil, nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var text bytes.Buffer
	if err := response.Write(&text); err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the answer is not a 200: %.500s", &text)
	}
	return text.Bytes(), body, nil
}
