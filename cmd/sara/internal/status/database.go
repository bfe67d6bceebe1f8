package status

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

// Database shows the health of the database.
type Database struct {
	Kind      string   `json:"kind"` // SQLite or PostgreSQL
	Address   string   `json:"address"`
	Reachable bool     `json:"reachable"`
	LatencyMS *float64 `json:"latency_ms"`
	Schema    int64    `json:"schema_version"`
	Known     int64    `json:"known_schema_version"` // the latest that this program knows
	Problem   *string  `json:"problem"`
}

// askDatabase queries the opened database; err is why it could not be opened.
func askDatabase(ctx context.Context, store *sqlstore.Store, address string, err error) Database {
	d := Database{Kind: "PostgreSQL", Address: address, Problem: problem(err)}
	if strings.HasPrefix(address, "sqlite:") {
		d.Kind = "SQLite"
	}
	if store == nil {
		return d
	}
	begun := time.Now()
	if err := store.Ping(ctx); err != nil {
		d.Problem = problem(err)
		return d
	}
	d.Reachable, d.LatencyMS = true, latency(begun)
	d.Schema, d.Known, err = store.SchemaVersion(ctx)
	d.Problem = problem(err)
	return d
}

// judge decides whether the database needs attention.
func (d *Database) judge(r *Report) {
	switch {
	case d.Problem != nil:
		r.attend("database: %s", *d.Problem)
	case d.Schema > d.Known:
		r.attend("database: the schema has version %d, but this program knows only versions up to %d: run the newer program", d.Schema, d.Known)
	case d.Schema < d.Known:
		r.attend("database: the schema has version %d, the latest is %d: run sara migrate", d.Schema, d.Known)
	}
}

// Connections lists the connections that fail.
type Connections struct {
	Total     int      `json:"total"`
	Failing   int      `json:"unhealthy_total"`
	Unhealthy []Outage `json:"unhealthy"` // the first 20 of them, the longest first
	Sealed    Sealed   `json:"sealed"`
	Problem   *string  `json:"problem"`
}

// Sealed lists the connections whose credentials no secret key opens, and the keys that credentials need.
type Sealed struct {
	Keys        []SecretKey `json:"keys"`
	Total       *int        `json:"total"`       // null: not checked, because there is no secret key
	Connections []Outage    `json:"connections"` // the first 20 of them

	healthy int // of the total, those that are not listed as unhealthy
}

// SecretKey is a secret key that is set, or that credentials need.
type SecretKey struct {
	ID          *string `json:"id"` // null: not known, of credentials that are damaged or do not name their key
	Role        string  `json:"role"`
	Connections int     `json:"connections"` // those whose credentials it has sealed
}

// SecretKeyOf returns the key of a use.
func SecretKeyOf(use sqlstore.SecretKeyUse) SecretKey {
	k := SecretKey{Role: string(use.Role), Connections: use.Connections}
	if use.IsKnown() {
		k.ID = new(use.ID.String())
	}
	return k
}

// Cells are those of the table of keys.
func (k SecretKey) Cells() []string {
	return []string{console.Cell(k.ID), k.Role, strconv.Itoa(k.Connections)}
}

// Outage is a connection that fails, or whose credentials no secret key opens.
type Outage struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Workspace string  `json:"workspace"`
	Account   string  `json:"account"`
	Since     *string `json:"since"` // null: not recorded
	Note      string  `json:"note"`
}

func (v view) outages(ctx context.Context) Connections {
	s := Connections{Unhealthy: []Outage{}, Sealed: Sealed{Connections: []Outage{}, Keys: []SecretKey{}}}
	if v.store == nil {
		s.Problem = problem(errNoDatabase)
		return s
	}
	broken, err := v.store.Outages(ctx, shownRows)
	s.Total, s.Failing = broken.Connections, broken.Total
	sealing, sealingErr := v.store.Sealing(ctx, shownRows)
	s.Problem = problem(errors.Join(err, sealingErr))
	s.Sealed.Keys = console.Each(sealing.Keys, SecretKeyOf)
	if unopened := sealing.Unopened; sealing.Checked() {
		s.Sealed.Total, s.Sealed.healthy = &unopened.Total, unopened.Healthy
		s.Sealed.Connections = console.Each(unopened.First, func(c sqlstore.UnopenedConnection) Outage {
			return Outage{ID: c.ID, Name: c.Name, Workspace: c.WorkspaceName, Account: c.AccountName, Note: c.Err.Error()}
		})
	}
	s.Unhealthy = console.Each(broken.First, func(o sqlstore.Outage) Outage {
		return Outage{ID: o.ID, Name: o.Name, Workspace: o.WorkspaceName, Account: o.AccountName, Since: console.OptionalTime(o.Since), Note: o.Note}
	})
	return s
}

// latency is the time since the beginning of a query, in milliseconds.
func latency(begun time.Time) *float64 { return new(float64(time.Since(begun).Microseconds()) / 1000) }

// percent returns the used part of a limit in whole per cent.
func percent(used, limit int) int { return int(int64(used) * 100 / int64(max(limit, 1))) }
