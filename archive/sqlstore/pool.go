package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const (
	// DefaultConnections is small enough that seven processes fit into PostgreSQL's default of 100 connections, and leave some
	// for commands.
	DefaultConnections = 12
	// MinConnections leaves each pool enough connections for its lanes to be separate.
	MinConnections = 8
	// MaxConnections is more than a server should have.
	MaxConnections = 1000
)

// pools are the connections of a Store, in bulkheads: a query waits only for connections of its own pool.
type pools struct {
	check   *sql.DB // one connection, only for Ping: distinguishes an unavailable database from a busy one
	lookups *sql.DB // what every request looks up: keys, properties, credentials
	reports *sql.DB // what requests and operators list
	jobs    *sql.DB // writes, and what background jobs read in bulk

	// parses is whether the driver parses unprepared queries on every call. The PostgreSQL driver caches prepared statements.
	parses bool

	losses *losses // of connections to PostgreSQL; nil: a file has none
}

// openPools opens pools with a total number of connections, or one pool for everything.
func openPools(open func(connections int) (*sql.DB, error), total int, one bool) (p pools, err error) {
	if total < MinConnections || total > MaxConnections {
		return p, &InputError{"database connections", fmt.Sprintf("%d is not a number from %d to %d", total, MinConnections, MaxConnections)}
	}
	if one {
		db, err := open(total)
		if err != nil {
			return p, err
		}
		return onePool(db), nil
	}
	jobs, reports := total/4, total/4
	for _, part := range []struct {
		pool        **sql.DB
		connections int
	}{{&p.check, 1}, {&p.lookups, total - 1 - jobs - reports}, {&p.reports, reports}, {&p.jobs, jobs}} {
		if *part.pool, err = open(part.connections); err != nil {
			return p, err // nothing is open: connections are opened on demand
		}
	}
	return p, nil
}

// onePool uses one database for everything.
func onePool(db *sql.DB) pools { return pools{check: db, lookups: db, reports: db, jobs: db} }

func (p pools) close() error {
	return errors.Join(p.check.Close(), p.lookups.Close(), p.reports.Close(), p.jobs.Close())
}

// Collectors returns the metrics of the connection pools, with the labels db_name="lookups", "reports" and "jobs", and those of their
// lanes.
func (s *Store) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		s.waited,
		collectors.NewDBStatsCollector(s.pools.lookups, "lookups"),
		collectors.NewDBStatsCollector(s.pools.reports, "reports"),
		collectors.NewDBStatsCollector(s.pools.jobs, "jobs"),
	}
}

// lanes are the kinds of queries. Those that read one group of tables share a lane, which is narrower than its pool: while a lock on
// one of these tables blocks all queries of its lane, the others still find a connection.
type lanes struct {
	keys       lane // has its whole pool: few of these queries run at once, because callers share them
	properties lane

	listings    lane
	segments    lane
	annotations lane
	indexing    lane
	overview    lane // for operators and jobs, over all accounts

	changes lane
	leases  lane // has its whole pool, so that no write delays the renewal of a lease
}

// lanes returns the lanes of the pools of a store, which count their waits by name.
func (p pools) lanes(opening *opening, waited *prometheus.CounterVec) lanes {
	var prepared *sync.Map
	if p.parses {
		prepared = new(sync.Map)
	}
	whole := func(db *sql.DB) lane { return lane{DB: db, opening: opening, losses: p.losses} }
	// narrow returns a lane that leaves some connections of a pool to others.
	narrow := func(db *sql.DB, left int, name string) lane {
		turns := make(chan struct{}, max(1, db.Stats().MaxOpenConnections-left))
		return lane{DB: db, opening: opening, losses: p.losses, turns: turns, waited: waited.WithLabelValues(name)}
	}
	lookups := func(l lane) lane {
		l.prepared, l.reads = prepared, true
		return l
	}
	reports := func(name string) lane {
		l := narrow(p.reports, 1, name)
		l.reads = true
		return l
	}
	return lanes{
		keys: lookups(whole(p.lookups)), properties: lookups(narrow(p.lookups, 2, "properties")),
		listings: reports("listings"), segments: reports("segments"), annotations: reports("annotations"), indexing: reports("indexing"),
		overview: reports("overview"),
		changes:  narrow(p.jobs, 1, "changes"), leases: whole(p.jobs),
	}
}

// newLaneWaits returns the counter of how long queries waited for a turn. The pools' own metrics count only waits for a connection,
// and a narrow lane causes none.
func newLaneWaits() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_database_lane_wait_seconds_total",
		Help: "How long queries waited because their lane was full, by lane: the group of tables that they read or change.",
	}, []string{"lane"})
}

// A lane is a pool with a limit on how many of its connections one kind of query uses at a time.
type lane struct {
	*sql.DB
	opening  *opening
	losses   *losses
	reads    bool               // its queries change nothing
	prepared *sync.Map          // each *sql.Stmt by its query; there are few. nil: statements are not prepared
	turns    chan struct{}      // has a value for each running query; nil: no limit of its own
	waited   prometheus.Counter // seconds, for a turn
}

// enter waits for a turn. The caller calls leave when its query has ended.
func (l lane) enter(ctx context.Context) (leave func(), err error) {
	if err := l.opening.check(); err != nil {
		return nil, err
	}
	if l.turns == nil {
		return func() {}, nil
	}
	leave = func() { <-l.turns }
	select {
	case l.turns <- struct{}{}:
		return leave, nil
	default:
	}
	begun := time.Now()
	defer func() { l.waited.Add(time.Since(begun).Seconds()) }()
	select {
	case l.turns <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection to the database: %w", ctx.Err())
	}
}

// ExecContext shadows the method of sql.DB in order to wait for a turn.
func (l lane) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	leave, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return l.DB.ExecContext(ctx, query, args...)
}

// QueryContext shadows the method of sql.DB in order to use prepared statements.
func (l lane) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if l.prepared == nil {
		return l.DB.QueryContext(ctx, query, args...)
	}
	statement, err := l.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(ctx, args...)
}

// statement returns the prepared statement of a query. The pool prepares it on each of its connections once.
func (l lane) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if known, ok := l.prepared.Load(query); ok {
		return known.(*sql.Stmt), nil
	}
	made, err := l.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	known, raced := l.prepared.LoadOrStore(query, made)
	if raced {
		err = made.Close()
	}
	return known.(*sql.Stmt), err
}

// enter waits for a turn in the lane of q, if it is one.
func enter(ctx context.Context, q querier) (leave func(), err error) {
	if l, ok := q.(lane); ok {
		return l.enter(ctx)
	}
	return func() {}, nil
}
