package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// watchedFor is how long the sessions of other processes are watched. A server reads the Edition twice a second, and a job renews its
	// lease every 3.3 seconds.
	watchedFor = 4 * time.Second
	watchEvery = 100 * time.Millisecond

	applicationName    = "application_name" // the parameter of PostgreSQL that names a session
	longestSessionName = 63                 // PostgreSQL cuts off the rest
	sharedName         = len("sara/1234/")  // the names of a deployment's processes share this prefix

	// Sessions that are active, or were since the transaction began. Other users' sessions may hide their state; these count as active.
	selectSessions = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()" +
		" AND starts_with(application_name, $1) AND application_name <> $2 AND coalesce(state <> 'idle' OR state_change > now(), TRUE)"
)

// sessionName returns the name of a store's sessions in PostgreSQL. It consists of sara/; a number for the schema that the parameters
// select, since several deployments may each have their own in one database; a random part, because in containers every process may be
// process 1 of the same host; the process and host; and the name that the parameters give.
func sessionName(parameters map[string]string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	schema := crc32.ChecksumIEEE([]byte(parameters["search_path"] + "\n" + parameters["options"]))
	name := fmt.Sprintf("sara/%04x/%s process %d on %s", schema>>16, rand.Text()[:5], os.Getpid(), host)
	if wanted := parameters[applicationName]; wanted != "" {
		name += ", " + wanted
	}
	name = strings.Map(asciiOnly, name)
	return name[:min(len(name), longestSessionName)]
}

// asciiOnly replaces what PostgreSQL would replace in the name of a session, so that a store recognizes its own.
func asciiOnly(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// OtherProcesses returns other processes of sara that use a PostgreSQL database, such as "process 4711 on web-1", and none for SQLite: see
// FileInUse. It watches for four seconds, and returns the first ones that it sees, perhaps not all. The existence of a session proves
// nothing: PgBouncer keeps the sessions of processes that have ended, each named after its last user. So a transaction holds one session,
// and watches which of the others are used meanwhile.
func (s *Store) OtherProcesses(ctx context.Context) (processes []string, err error) {
	if s.dialect != postgresDialect {
		return nil, nil
	}
	err = snapshot(ctx, s.overview, 2*watchedFor, func(ctx context.Context, tx *sql.Tx) error {
		tick, end := time.NewTicker(watchEvery), time.NewTimer(watchedFor)
		defer tick.Stop()
		defer end.Stop()
		for {
			names, err := all(ctx, tx, scalar[string], selectSessions, s.session[:sharedName], s.session)
			if err != nil || len(names) > 0 {
				processes = processesOf(names)
				return err
			}
			select {
			case <-tick.C:
			case <-end.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
			if _, err := tx.ExecContext(ctx, "SELECT pg_stat_clear_snapshot()"); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch the sessions of the database: %w", err)
	}
	return processes, nil
}

// processesOf returns the processes of sessions, in order.
func processesOf(names []string) (processes []string) {
	for _, name := range names {
		_, process, _ := strings.Cut(name, " ")
		processes = append(processes, process)
	}
	slices.Sort(processes)
	return slices.Compact(processes)
}
