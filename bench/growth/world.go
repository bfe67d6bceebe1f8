package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"sara/bench/internal/stage"
	"sara/bench/internal/trial"
	"sara/bench/internal/wire"
	"sara/proxy/upstream/gscsim"
)

// A world is a running sara with what the curves ask of it. It is for one goroutine, but for its sources.
type world struct {
	*trial.Rig
	seeder  *seeder
	lastDay time.Time    // final everywhere, and still so if the day changes meanwhile
	months  int          // archived so far
	fresh   atomic.Int64 // numbers of questions that nobody asked before
}

// The properties, all of one account.
const (
	hitDomain     = "hit.example"
	archiveDomain = "archive.example"
	keys          = 2
)

// rowDomain has a site of so many queries, nearly all of which have rows in 28 days.
func rowDomain(rows int) string { return fmt.Sprintf("rows-%d.example", rows) }

func newWorld(ctx context.Context) (_ *world, err error) {
	account := stage.Account{People: keys, Properties: []stage.Property{{Domain: hitDomain}, {Domain: archiveDomain}}}
	for _, l := range ladders() {
		for _, step := range l.steps {
			if l.unit == "rows" {
				account.Properties = append(account.Properties, stage.Property{Domain: rowDomain(step), Queries: step})
			}
		}
	}
	w := &world{lastDay: time.Now().UTC().AddDate(0, 0, -4)}
	w.Rig, err = trial.Start(ctx, stage.Config{
		Accounts: []stage.Account{account}, Site: gscsim.Site{Queries: 400, Pages: 100}, Replicas: 1, Log: os.DevNull,
	})
	if err != nil {
		return nil, err
	}
	if w.seeder, err = newSeeder(w.Stage.Database()); err != nil {
		return nil, errors.Join(err, w.Rig.Close())
	}
	if err := w.ask(ctx, 0, w.hitRequest(w.Stage.Keys[0][0])); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// close stops everything.
func (w *world) close() error { return errors.Join(w.seeder.close(), w.Close()) }

const connections = 16 // where it is not they that grow

func (w *world) closed(source wire.Source) (wire.Load, error) {
	address, err := w.Address(0)
	return wire.Load{Addresses: []string{address}, Source: source, Connections: connections}, err
}

// ask asks once of a replica.
func (w *world) ask(ctx context.Context, replica int, requests ...[]byte) error {
	address, err := w.Address(replica)
	if err != nil {
		return err
	}
	return w.AskOnce(ctx, address, requests...)
}

func (w *world) request(key, domain, path string) []byte {
	return wire.Get("/v1/properties"+domain+path, "Authorization: Bearer "+key)
}

// table asks for queries of a property. The days are counted back from the last one.
func (w *world) table(key, domain string, firstBack, lastBack, limit int, more string) []byte {
	day := func(back int) string { return w.lastDay.AddDate(0, 0, -back).Format(time.DateOnly) }
	return w.request(key, "/"+domain, fmt.Sprintf("/queries?start_date=%s&end_date=%s&limit=%d%s", day(firstBack), day(lastBack), limit, more))
}

const (
	hitDays  = 28
	hitLimit = 62 // rows of an answer of 8 KB
)

func (w *world) hitRequest(key string) []byte {
	return w.table(key, hitDomain, hitDays-1, 0, hitLimit, "")
}

func (w *world) hitSource() wire.Source {
	var requests [][]byte
	for _, key := range w.Stage.Keys[0] {
		requests = append(requests, w.hitRequest(key))
	}
	return wire.Rotate(requests...)
}

func (w *world) hits(int) (wire.Load, error) { return w.closed(w.hitSource()) }

// stay is the climb of what is made bigger by the load alone.
func (w *world) stay(context.Context, int) error { return nil }

func (w *world) hitsOver(connections int) (wire.Load, error) {
	load, err := w.closed(w.hitSource())
	load.Connections = connections
	return load, err
}

func (w *world) growReplicas(ctx context.Context, replicas int) error {
	for len(w.Stage.Replicas) < replicas {
		if err := w.Stage.AddReplica(); err != nil {
			return err
		}
		if err := w.ask(ctx, len(w.Stage.Replicas)-1, w.hitRequest(w.Stage.Keys[0][0])); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) hitsOfReplicas(replicas int) (load wire.Load, err error) {
	const each = 32 // connections
	load = wire.Load{Source: w.hitSource(), Connections: each * replicas}
	for i := range replicas {
		address, err := w.Address(i)
		if err != nil {
			return load, err
		}
		load.Addresses = append(load.Addresses, address)
	}
	return load, nil
}

func (w *world) rowRequest(rows int) []byte {
	return w.table(w.Stage.Keys[0][0], rowDomain(rows), hitDays-1, 0, 10, "&order_by=-impressions")
}

func (w *world) askRows(ctx context.Context, rows int) error {
	return w.ask(ctx, 0, w.rowRequest(rows))
}

func (w *world) rowHits(rows int) (wire.Load, error) {
	return w.closed(wire.Rotate(w.rowRequest(rows)))
}

// orders are those that an answer is cut by from all rows there are.
func orders() []string {
	return []string{"-impressions", "impressions", "-ctr", "ctr", "-position", "position", "-key", "key", "clicks"}
}

// cuts asks for the same days with another order or limit each time, which makes another answer of the rows in memory. Days
// change when all of these were asked.
func (w *world) cuts(rows int) (wire.Load, error) {
	const limits = 100
	return w.closed(func(dst []byte, _ int64) []byte {
		n := int(w.fresh.Add(1))
		order, back := orders()[n/limits%len(orders())], n/limits/len(orders())%hitDays
		return append(dst, w.table(w.Stage.Keys[0][0], rowDomain(rows), back+hitDays-1, back, 10+n%limits, "&order_by="+order)...)
	})
}

// misses names another word in each filter, which no query contains.
func (w *world) misses(rows int) (wire.Load, error) {
	load, err := w.closed(func(dst []byte, _ int64) []byte {
		filter := fmt.Sprintf("&order_by=-impressions&filters=%%5B%%7B%%22dimension%%22%%3A%%22query%%22%%2C%%22operator%%22%%3A%%22not_contains%%22%%2C"+
			"%%22value%%22%%3A%%22zzz%d%%22%%7D%%5D", w.fresh.Add(1))
		return append(dst, w.table(w.Stage.Keys[0][0], rowDomain(rows), hitDays-1, 0, 10, filter)...)
	})
	load.Connections = 4 // the simulator computes each answer
	return load, err
}

// The archive's days, counted back from the last day. The upstream has those before.
const (
	archivedUntil = 495 // 16 months and some days
	daysOfMonth   = 30
)

// archive imports the newest so many months before what is live: each day its total and forty queries.
func (w *world) archive(ctx context.Context, months int) error {
	const queries = 40 // fewer than the least limit that is asked for, so that all answers have equally many rows
	if months <= w.months {
		return nil
	}
	var text bytes.Buffer
	text.WriteString("date,dimension,key,clicks,impressions,position\n")
	for back := archivedUntil + w.months*daysOfMonth; back < archivedUntil+months*daysOfMonth; back++ {
		day := w.lastDay.AddDate(0, 0, -back).Format(time.DateOnly)
		fmt.Fprintf(&text, "%s,total,,5000,100000,12.5\n", day)
		for i := range queries {
			fmt.Fprintf(&text, "%s,query,query number %d,%d,%d,%.1f\n", day, i, 1+(back*31+i*17)%(1000/(i+1)), 1000+i, 1+float64((back+i)%300)/10)
		}
	}
	if err := w.Stage.Archive(ctx, archiveDomain, text.Bytes()); err != nil {
		return err
	}
	w.months = months
	return nil
}

// stored asks for archived days, each time with another order or limit.
func (w *world) stored(firstBack, lastBack int) (wire.Load, error) {
	const least, limits = 50, 950
	return w.closed(func(dst []byte, _ int64) []byte {
		n := int(w.fresh.Add(1))
		return append(dst, w.table(w.Stage.Keys[0][0], archiveDomain, firstBack, lastBack, least+n%limits, "&order_by="+orders()[n/limits%len(orders())])...)
	})
}

func (w *world) storedWeeks(int) (wire.Load, error) {
	return w.stored(archivedUntil+hitDays-1, archivedUntil)
}

func (w *world) storedMonths(months int) (wire.Load, error) {
	return w.stored(archivedUntil+months*daysOfMonth-1, archivedUntil)
}

func (w *world) growProperties(ctx context.Context, n int) error {
	return w.seeder.growProperties(ctx, hitDomain, n)
}

func (w *world) list(int) (wire.Load, error) {
	return w.closed(wire.Rotate(w.request(w.Stage.Keys[0][0], "", "?limit=50")))
}

func (w *world) growAccounts(ctx context.Context, n int) error {
	return w.seeder.growAccounts(ctx, w.Stage.Keys[0][0], n)
}

// someAccounts asks with the keys of a hundred accounts, which lie between all others.
func (w *world) someAccounts(accounts int) (wire.Load, error) {
	const active = 100
	var requests [][]byte
	for i := range active {
		requests = append(requests, w.hitRequest(seededKey(i*accounts/active)))
	}
	return w.closed(wire.Rotate(requests...))
}

func (w *world) allAccounts(accounts int) (wire.Load, error) {
	return w.closed(func(dst []byte, _ int64) []byte {
		return append(dst, w.hitRequest(seededKey(int(w.fresh.Add(1))%accounts))...)
	})
}
