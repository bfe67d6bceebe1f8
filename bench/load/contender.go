package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sara/bench/internal/gauge"
	"sara/bench/internal/peer"
	"sara/bench/internal/stage"
	"sara/bench/internal/trial"
	"sara/bench/trace"
)

// A contender answers one request over and over.
type contender struct {
	name, about string
	address     string
	request     []byte
	servers     []gauge.Server // the processes that answer
	stop        func() error   // nil for those that the stage stops
}

// An arena is where contenders are set up: with what sara answers to one request.
type arena struct {
	world  *world
	folder string
	sara   *contender
	path   string
	answer []byte // with its head
	body   []byte
	others []*contender
}

// newArena sets up sara, with a memory hit that takes a key, a plan, a scope and the three budgets.
func newArena(ctx context.Context, w *world) (_ *arena, err error) {
	address, err := w.address(roomy)
	if err != nil {
		return nil, err
	}
	a := &arena{world: w, path: w.table(trace.Domain(0), "queries", hitDays-1, 0, hitLimit)}
	a.sara = &contender{name: trial.Sara, address: address, request: w.request(0, 0, a.path)}
	a.sara.servers = []gauge.Server{{Name: trial.Sara, PID: w.Stage.Replicas[0].PID}, {Name: trial.Redis, PID: w.Stage.Redis.PID}}
	if err := w.AskOnce(ctx, address, a.sara.request); err != nil {
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

// addFloor starts the contender that does nothing but answer, with the bytes of sara's answer.
func (a *arena) addFloor() error {
	file := filepath.Join(a.folder, "answer")
	if err := os.WriteFile(file, a.answer, 0o600); err != nil {
		return err
	}
	itself, err := os.Executable()
	if err != nil {
		return err
	}
	address, pid, err := a.world.Stage.AddServer(itself, floorCommand, file)
	if err != nil {
		return err
	}
	a.others = append(a.others, &contender{
		name: "the floor", about: "a bare fasthttp handler that sends the same bytes",
		address: address, request: a.sara.request, servers: []gauge.Server{{Name: floorCommand, PID: pid}},
	})
	return nil
}

// addPeer starts something that one would build instead, with a Redis of its own, or returns why it cannot be.
func (a *arena) addPeer(ctx context.Context, p peer.Peer) (missing, err error) {
	if missing := p.Available(); missing != nil {
		return missing, nil
	}
	folder, err := os.MkdirTemp(a.folder, "peer-")
	if err != nil {
		return nil, err
	}
	redis, err := a.world.Stage.AddRedis()
	if err != nil {
		return nil, err
	}
	running, err := p.Start(ctx, peer.Setup{
		Folder: folder, Redis: redis.Address, Key: a.world.Stage.Keys[0][0], Path: a.path, Body: a.body,
		Limits: peer.Limits{PerMinute: stage.Raised, PerHour: stage.Raised, PerDay: stage.Raised},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	c := &contender{name: p.Name(), about: strings.TrimSuffix(p.About(), "."), address: running.Address, request: running.Request, stop: running.Stop}
	c.servers = []gauge.Server{{Name: trial.Redis, PID: redis.PID}}
	for i, pid := range running.PIDs {
		c.servers = append(c.servers, gauge.Server{Name: fmt.Sprint(p.Name(), i), PID: pid})
	}
	a.others = append(a.others, c)
	return nil, nil
}
