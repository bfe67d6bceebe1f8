package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/testbed"
	"sara/proxy/upstream/gscsim"
)

// A world is a running sara, with the data that the curves request. It belongs to one goroutine, except for its sources.
type world struct {
	*measure.Rig
	seeder  *seeder
	lastDay time.Time    // final in every time zone, even if the day changes during the run
	months  int          // archived so far
	fresh   atomic.Int64 // numbers requests that must differ from all earlier ones
}

// The properties, all in one account.
const (
	hitDomain     = "hit.example"
	archiveDomain = "archive.example"
	keys          = 2
)

// rowDomain returns the domain of a site with this many queries, nearly all of which have rows in 28 days.
func rowDomain(rows int) string { return fmt.Sprintf("rows-%d.example", rows) }

func newWorld(ctx context.Context, binary string) (_ *world, err error) {
	account := testbed.Account{People: keys, Properties: []testbed.Property{{Domain: hitDomain}, {Domain: archiveDomain}}}
	for _, l := range ladders() {
		for _, step := range l.steps {
			if l.unit == "rows" {
				account.Properties = append(account.Properties, testbed.Property{Domain: rowDomain(step), Queries: step})
			}
		}
	}
	w := &world{lastDay: time.Now().UTC().AddDate(0, 0, -4)}
	w.Rig, err = measure.Start(ctx, testbed.Config{
		Binary: binary, Accounts: []testbed.Account{account}, Site: gscsim.Site{Queries: 400, Pages: 100}, Replicas: 1, Log: os.DevNull,
	})
	if err != nil {
		return nil, err
	}
	if w.seeder, err = newSeeder(w.Database()); err != nil {
		return nil, errors.Join(err, w.Rig.Close())
	}
	if err := w.ask(ctx, 0, w.hitRequest(w.Keys[0][0])); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// close stops everything.
func (w *world) close() error { return errors.Join(w.seeder.close(), w.Close()) }

const connections = 16 // of all curves except that of connections

func (w *world) closed(source loadgen.Source) (loadgen.Load, error) {
	return loadgen.Load{Addresses: []string{w.Replicas[0].Address}, Source: source, Connections: connections}, nil
}

// ask sends each request once to a replica.
func (w *world) ask(ctx context.Context, replica int, requests ...loadgen.Request) error {
	return loadgen.Once(ctx, w.Replicas[replica].Address, requests...)
}

func (w *world) request(key, domain, path string) loadgen.Request {
	return loadgen.Get("/v1/properties"+domain+path, "Authorization", "Bearer "+key)
}

// table requests queries of a property. Days are counted back from the last day.
func (w *world) table(key, domain string, firstBack, lastBack, limit int, more string) loadgen.Request {
	day := func(back int) string { return w.lastDay.AddDate(0, 0, -back).Format(time.DateOnly) }
	return w.request(key, "/"+domain, fmt.Sprintf("/queries?start_date=%s&end_date=%s&limit=%d%s", day(firstBack), day(lastBack), limit, more))
}

const (
	hitDays  = 28
	hitLimit = 62 // rows, for an answer of 8 KB
)

func (w *world) hitRequest(key string) loadgen.Request {
	return w.table(key, hitDomain, hitDays-1, 0, hitLimit, "")
}

func (w *world) hitSource() loadgen.Source {
	var requests []loadgen.Request
	for _, key := range w.Keys[0] {
		requests = append(requests, w.hitRequest(key))
	}
	return loadgen.Rotate(requests...)
}

func (w *world) hits(int) (loadgen.Load, error) { return w.closed(w.hitSource()) }

// stay is the climb of a quantity that only the load changes.
func (w *world) stay(context.Context, int) error { return nil }

func (w *world) hitsOver(connections int) (loadgen.Load, error) {
	load, err := w.closed(w.hitSource())
	load.Connections = connections
	return load, err
}

func (w *world) growReplicas(ctx context.Context, replicas int) error {
	for len(w.Replicas) < replicas {
		if err := w.AddReplica(); err != nil {
			return err
		}
		if err := w.ask(ctx, len(w.Replicas)-1, w.hitRequest(w.Keys[0][0])); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) hitsOfReplicas(replicas int) (load loadgen.Load, err error) {
	const each = 32 // connections
	load = loadgen.Load{Source: w.hitSource(), Connections: each * replicas}
	for _, replica := range w.Replicas[:replicas] {
		load.Addresses = append(load.Addresses, replica.Address)
	}
	return load, nil
}

func (w *world) rowRequest(rows int) loadgen.Request {
	return w.table(w.Keys[0][0], rowDomain(rows), hitDays-1, 0, 10, "&order_by=-impressions")
}

func (w *world) askRows(ctx context.Context, rows int) error {
	return w.ask(ctx, 0, w.rowRequest(rows))
}

func (w *world) rowHits(rows int) (loadgen.Load, error) {
	return w.closed(loadgen.Rotate(w.rowRequest(rows)))
}

// orders are those that need all rows.
func orders() []string {
	return []string{"-impressions", "impressions", "-ctr", "ctr", "-position", "position", "-key", "key", "clicks"}
}

// cuts requests a new order or limit each time, and then moves on by a day: each is a new answer from rows in
// memory.
func (w *world) cuts(rows int) (loadgen.Load, error) {
	const limits = 100
	return w.closed(func(int64) loadgen.Request {
		n := int(w.fresh.Add(1))
		order, back := orders()[n/limits%len(orders())], n/limits/len(orders())%hitDays
		return w.table(w.Keys[0][0], rowDomain(rows), back+hitDays-1, back, 10+n%limits, "&order_by="+order)
	})
}

// misses filters by a new word in each request; no query contains it.
func (w *world) misses(rows int) (loadgen.Load, error) {
	load, err := w.closed(func(int64) loadgen.Request {
		filter := fmt.Sprintf("&order_by=-impressions&filters=%%5B%%7B%%22dimension%%22%%3A%%22query%%22%%2C%%22operator%%22%%3A%%22not_contains%%22%%2C"+
			"%%22value%%22%%3A%%22zzz%d%%22%%7D%%5D", w.fresh.Add(1))
		return w.table(w.Keys[0][0], rowDomain(rows), hitDays-1, 0, 10, filter)
	})
	load.Connections = 4 // the simulator computes every answer
	return load, err
}

// The archived days, counted back from the last day. The upstream has the days after them.
const (
	archivedUntil = 495 // 16 months and some days
	daysOfMonth   = 30
)

// archive imports this many months right before the live data: a total and forty queries for each day.
func (w *world) archive(ctx context.Context, months int) error {
	const queries = 40 // below the smallest limit in requests, so that all answers have the same number of rows
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
	if err := w.Archive(ctx, archiveDomain, text.Bytes()); err != nil {
		return err
	}
	w.months = months
	return nil
}

// stored requests archived days, with a new order or limit each time.
func (w *world) stored(firstBack, lastBack int) (loadgen.Load, error) {
	const least, limits = 50, 950
	return w.closed(func(int64) loadgen.Request {
		n := int(w.fresh.Add(1))
		return w.table(w.Keys[0][0], archiveDomain, firstBack, lastBack, least+n%limits, "&order_by="+orders()[n/limits%len(orders())])
	})
}

func (w *world) storedWeeks(int) (loadgen.Load, error) {
	return w.stored(archivedUntil+hitDays-1, archivedUntil)
}

func (w *world) storedMonths(months int) (loadgen.Load, error) {
	return w.stored(archivedUntil+months*daysOfMonth-1, archivedUntil)
}

func (w *world) growProperties(ctx context.Context, n int) error {
	return w.seeder.growProperties(ctx, hitDomain, n)
}

func (w *world) list(int) (loadgen.Load, error) {
	return w.closed(loadgen.Rotate(w.request(w.Keys[0][0], "", "?limit=50")))
}

func (w *world) growAccounts(ctx context.Context, n int) error {
	return w.seeder.growAccounts(ctx, w.Keys[0][0], n)
}

// someAccounts uses the keys of a hundred accounts, evenly distributed over all.
func (w *world) someAccounts(accounts int) (loadgen.Load, error) {
	const active = 100
	var requests []loadgen.Request
	for i := range active {
		requests = append(requests, w.hitRequest(seededKey(i*accounts/active)))
	}
	return w.closed(loadgen.Rotate(requests...))
}

func (w *world) allAccounts(accounts int) (loadgen.Load, error) {
	return w.closed(func(int64) loadgen.Request {
		return w.hitRequest(seededKey(int(w.fresh.Add(1)) % accounts))
	})
}
