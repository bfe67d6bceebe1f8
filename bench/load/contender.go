package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/peer"
	"sara/bench/internal/procstat"
	"sara/bench/internal/testbed"
	"sara/bench/trace"
)

// A contender is a server that answers one request.
type contender struct {
	name, about string
	address     string
	request     loadgen.Request
	servers     []procstat.Server // its processes
	stop        func() error      // nil if the testbed stops it
}

// An arena has all contenders of a comparison, and sara's answer to one request.
type arena struct {
	world  *world
	folder string
	sara   *contender
	path   string
	answer []byte // with its headers
	body   []byte
	others []*contender
}

// newArena sets up sara, with a memory hit that involves a key, a plan, a scope and the three budgets.
func newArena(ctx context.Context, w *world) (_ *arena, err error) {
	address, err := w.address(defaults)
	if err != nil {
		return nil, err
	}
	a := &arena{world: w, path: w.table(trace.Domain(0), "queries", hitDays-1, 0, hitLimit)}
	a.sara = &contender{name: measure.Sara, address: address, request: w.request(0, 0, a.path)}
	a.sara.servers = []procstat.Server{{Name: measure.Sara, PID: w.Replicas[0].PID}, {Name: measure.Redis, PID: w.Redis.PID}}
	if err := loadgen.Once(ctx, address, a.sara.request); err != nil {
		return nil, err
	}
	if a.answer, a.body, err = ask(ctx, address, a.sara.request); err != nil {
		return nil, err
	}
	a.folder, err = os.MkdirTemp("", "sara-load-")
	return a, err
}

func (a *arena) close() error {
	var failures []error
	for _, c := range a.others {
		if c.stop != nil {
			failures = append(failures, c.stop())
		}
	}
	return errors.Join(append(failures, os.RemoveAll(a.folder))...)
}

// addBare starts a handler that only sends the bytes of sara's answer.
func (a *arena) addBare() error {
	file := filepath.Join(a.folder, "answer")
	if err := os.WriteFile(file, a.answer, 0o600); err != nil {
		return err
	}
	itself, err := os.Executable()
	if err != nil {
		return err
	}
	address, pid, err := a.world.AddServer(itself, bareCommand, file)
	if err != nil {
		return err
	}
	a.others = append(a.others, &contender{
		name: "bare handler", about: "a fasthttp handler that only sends the same bytes",
		address: address, request: a.sara.request, servers: []procstat.Server{{Name: bareCommand, PID: pid}},
	})
	return nil
}

// addPeer starts a peer with its own Redis, or returns an error that names what is not installed.
func (a *arena) addPeer(ctx context.Context, p peer.Peer) (missing, err error) {
	if missing := p.Available(); missing != nil {
		return missing, nil
	}
	folder, err := os.MkdirTemp(a.folder, "peer-")
	if err != nil {
		return nil, err
	}
	redis, err := a.world.AddRedis()
	if err != nil {
		return nil, err
	}
	running, err := p.Start(ctx, peer.Setup{
		Folder: folder, Redis: redis.Address, Key: a.world.Keys[0][0], Path: a.path, Body: a.body, Log: os.DevNull,
		Limits: peer.Limits{PerMinute: testbed.Raised, PerHour: testbed.Raised, PerDay: testbed.Raised},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	c := &contender{name: p.Name(), about: strings.TrimSuffix(p.About(), "."), address: running.Address, request: a.sara.request, stop: running.Stop}
	c.servers = []procstat.Server{{Name: measure.Redis, PID: redis.PID}}
	for i, pid := range running.PIDs {
		c.servers = append(c.servers, procstat.Server{Name: fmt.Sprint(p.Name(), i), PID: pid})
	}
	a.others = append(a.others, c)
	return nil, nil
}
