// Package testbed sets up the processes and data for a measurement of sara: a built binary, any number of replicas of it, the
// servers that they use, and the simulated Search Console in this process. These servers are Redis, alone or in a group
// (Sentinel or Cluster), SQLite or PostgreSQL, with or without PgBouncer, and a folder or an S3 store for the archive; Config
// selects them. sara's own commands fill the database. The package uses sara only from outside: commands, environment, HTTP.
//
// Everything listens on free ports of 127.0.0.1, keeps its files in a temporary folder, and ends with Close. Child processes
// end with this process, even if it is killed. A Testbed belongs to one goroutine.
package testbed

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"sara/bench/internal/cgroup"
	"sara/bench/internal/subprocess"
	"sara/cmd/sara/saratest"
	"sara/proxy/upstream/gscsim"
)

// A Testbed is a running sara.
type Testbed struct {
	Keys      [][]string // by account and person
	Replicas  []Replica
	Redis     *Redis    // nil if there is none; the first one of a group
	Nodes     []*Redis  // of a group
	Monitor   *Redis    // the sentinel of a group
	Postgres  *Postgres // nil if the database is SQLite
	S3        *S3       // nil if the archive is a folder
	Simulator *gscsim.Server

	pooler    *subprocess.Process // nil if there is none
	folder    string
	folders   []string // of servers
	binary    string
	env       []string
	log       *os.File // nil to log only warnings
	usual     bool
	processes []*subprocess.Process // in the order of their start
	groups    []*cgroup.Group       // of replicas
	upstream  *httptest.Server
	calls     atomic.Int64
}

// Start builds the binary, if necessary, and starts everything.
func Start(ctx context.Context, c Config) (_ *Testbed, err error) {
	b := &Testbed{binary: c.Binary, usual: c.Usual}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.folder, err = os.MkdirTemp("", "sara-bench-"); err != nil {
		return nil, err
	}
	if b.binary == "" {
		b.binary = filepath.Join(b.folder, "sara")
		if err := saratest.Build(ctx, b.binary, ""); err != nil {
			return nil, err
		}
	}
	credentials, err := b.simulate(c)
	if err != nil {
		return nil, err
	}
	if err := b.configure(c); err != nil {
		return nil, err
	}
	for i, account := range c.Accounts {
		if err := b.seed(ctx, strconv.Itoa(i), account, credentials[i]); err != nil {
			return nil, err
		}
	}
	for range c.Replicas {
		if err := b.AddReplica(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Close stops everything and removes the folder. Its error names the processes that failed.
func (b *Testbed) Close() error {
	var failures []error
	if b.pooler != nil { // PostgreSQL waits for its clients to leave
		failures = append(failures, b.StopPooler())
	}
	for i := len(b.processes) - 1; i >= 0; i-- {
		failures = append(failures, b.processes[i].Stop())
	}
	for _, group := range b.groups {
		failures = append(failures, group.Remove())
	}
	if b.upstream != nil {
		b.upstream.Close()
	}
	if b.log != nil {
		failures = append(failures, b.log.Close())
	}
	for _, folder := range append(b.folders, b.folder) {
		failures = append(failures, os.RemoveAll(folder))
	}
	return errors.Join(failures...)
}

// forget ends a process before the testbed does, and returns how it ended.
func (b *Testbed) forget(p *subprocess.Process) error {
	b.processes = slices.DeleteFunc(b.processes, func(other *subprocess.Process) bool { return other == p })
	return p.Stop()
}

// Database returns the path of the SQLite file, for seeding faster than sara's commands can.
func (b *Testbed) Database() string { return filepath.Join(b.folder, "sara.db") }

func (b *Testbed) write(name string, text []byte) (path string, err error) {
	path = filepath.Join(b.folder, name)
	return path, os.WriteFile(path, text, 0o600)
}

// configure sets the environment of commands and replicas, and starts Redis.
func (b *Testbed) configure(c Config) error {
	plans, err := b.write("plans.yaml", c.plans())
	if err != nil {
		return err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	b.env = inherited()
	database, err := b.database(c)
	if err != nil {
		return err
	}
	b.env = append(b.env, "SARA_DATABASE_URL="+database,
		"SARA_SECRET_KEY="+base64.StdEncoding.EncodeToString(secret), "SARA_PLANS_FILE="+plans,
		"SARA_UPSTREAM_URL="+b.upstream.URL, "SARA_OAUTH_TOKEN_URL="+b.upstream.URL+"/token",
		"SARA_ARCHIVE_URL=file://"+filepath.Join(b.folder, "archive"), "SARA_COLLECT=off", "SARA_INSPECT=off",
		"SARA_REPLICAS="+strconv.Itoa(max(1, c.Replicas)))
	if c.S3 {
		if b.S3, err = b.startS3(); err != nil {
			return err
		}
		b.env = append(b.env, b.S3.env()...)
	}
	if c.CacheBytes != "" {
		b.env = append(b.env, "SARA_CACHE_BYTES="+c.CacheBytes)
	}
	if c.Log == "" {
		b.env = append(b.env, "SARA_LOG_LEVEL=warn")
	} else if b.log, err = os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if c.Redis || c.Replicas > 1 {
		url, err := b.startGroup(c.Group, c.RedisArgs)
		if err != nil {
			return err
		}
		b.env = append(b.env, "SARA_REDIS_URL="+url)
	}
	return nil
}

// inherited returns the environment of this process without the settings of another sara.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SARA_") })
}

// start starts a program with the testbed's environment.
func (b *Testbed) start(stderr *os.File, program string, args ...string) (*subprocess.Process, error) {
	return b.startProcess(subprocess.Config{Program: program, Args: args, Env: b.env, Stderr: stderr})
}

// startProcess starts a program in the testbed's folder, which ends with the testbed.
func (b *Testbed) startProcess(c subprocess.Config) (*subprocess.Process, error) {
	c.Folder, c.Usual = b.folder, b.usual
	p, err := subprocess.Start(c)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}
