package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/keyring"
)

// Config configures a Store.
type Config struct {
	// URL is sqlite:PATH, sqlite::memory: (lost when the store closes) or postgres://USER:PASSWORD@HOST/DATABASE.
	URL string
	// Keyring encrypts the stored upstream credentials; nil if there is no secret key.
	Keyring *keyring.Keyring
	// Connections is the maximum number of connections to the database, from MinConnections to MaxConnections; 0: pool_max_conns of the
	// URL, or else DefaultConnections.
	Connections int
	// Command is for a program that makes a few queries and ends: all its queries share connections, and it opens as few as it needs. A
	// server has separate pools, so that queries of different kinds do not wait for each other.
	Command bool
	// Actor is who makes the administrative changes, for the audit log.
	Actor string
	// AuditRetention is how long entries of the audit log that this store writes are kept; 0: DefaultAuditRetention.
	AuditRetention time.Duration
	// OnMigrationWait is called, once for each Migrate, when it has waited a second for another process that is migrating, with how long
	// Migrate waits at most; nil: nothing is.
	OnMigrationWait func(atMost time.Duration)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Store is an open database. Close releases it.
type Store struct {
	pools pools
	lanes
	waited         *prometheus.CounterVec // by the name of a lane
	dialect        dialect
	session        string           // the name of its sessions in PostgreSQL
	ring           *keyring.Keyring // nil without a secret key
	sealer         *keyring.Sealer  // of credentials; nil without a secret key
	now            func() time.Time
	actor          string
	auditRetention time.Duration
	onWait         func(atMost time.Duration) // nil: nothing
	generation     atomic.Uint64
	opening        *opening
}

// opening records whether the database may be used: not before it has answered with a schema that this program knows. It is safe for
// concurrent use.
type opening struct{ failure atomic.Pointer[error] } // nil: open

func newOpening() *opening {
	o := &opening{}
	o.failure.Store(&ErrNotOpen)
	return o
}

// succeed opens it for good.
func (o *opening) succeed() { o.failure.Store(nil) }

// fail records why it is still not open.
func (o *opening) fail(err error) {
	if before := o.failure.Load(); before != nil {
		err = fmt.Errorf("%w: %w", ErrNotOpen, err)
		o.failure.CompareAndSwap(before, &err)
	}
}

// check returns an error that matches ErrNotOpen until it is open.
func (o *opening) check() error {
	if failure := o.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// DefaultAuditRetention is how long entries of the audit log are kept by default.
const DefaultAuditRetention = 400 * 24 * time.Hour

// Open connects to the database and checks that it answers. If the file of a SQLite database or its folder is missing, Open
// creates it, readable only by its owner. Open does not change the schema; Migrate does.
func Open(ctx context.Context, c Config) (*Store, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	s.opening.succeed()
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New is like Open, but the database need not answer yet. Until Migrate has succeeded, the schema is not known, and every other use of
// the store fails with ErrNotOpen.
func New(c Config) (*Store, error) {
	s := &Store{ring: c.Keyring, now: c.Now, actor: c.Actor, auditRetention: cmp.Or(c.AuditRetention, DefaultAuditRetention),
		onWait: c.OnMigrationWait, waited: newLaneWaits(), opening: newOpening()}
	if s.ring != nil {
		s.sealer = s.ring.Sealer(credentialsPurpose)
	}
	if s.now == nil {
		s.now = time.Now
	}
	scheme, rest, _ := strings.Cut(c.URL, ":")
	var err error
	switch scheme {
	case "sqlite":
		s.dialect = sqliteDialect
		s.pools, err = openSQLite(rest, c)
	case "postgres", "postgresql":
		s.dialect = postgresDialect
		s.pools, s.session, err = openPostgres(c)
	default:
		return nil, &InputError{"database URL", "it must start with sqlite: or postgres://"}
	}
	if err != nil {
		return nil, err
	}
	s.lanes = s.pools.lanes(s.opening, s.waited)
	return s, nil
}

// Close waits for running queries and closes the database.
func (s *Store) Close() error { return s.pools.close() }

// Ping reports whether the database answers. It has its own connection, so it does not wait for queries.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.opening.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	if err := s.pools.check.PingContext(ctx); err != nil {
		return fmt.Errorf("reach the %s database: %w", s.dialect, err)
	}
	return nil
}

// Generation increases with every administrative write that this process commits, and with every change that it makes to a connection's
// health or a property's access. It also increases if the reply to the commit is lost, because the change may have been made. Caches of
// the store's content compare it.
func (s *Store) Generation() uint64 { return s.generation.Load() }

// Edition increases with the same changes as Generation, whichever process makes them. A cache that was filled after an edition
// was read is valid until the edition changes.
func (s *Store) Edition(ctx context.Context) (_ uint64, err error) {
	defer wrap(&err, "read the edition")
	changes, err := one(ctx, s.keys, scalar[int64], "SELECT changes FROM edition")
	return uint64(changes), err
}
