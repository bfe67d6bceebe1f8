package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sara/bench/internal/subprocess"
)

// A Redis is one process of Redis.
type Redis struct {
	Address string // host:port
	PID     int

	args    []string
	process *subprocess.Process
}

// AddRedis starts a Redis that writes nothing to disk, with additional arguments for redis-server. The replicas do not use it.
func (b *Testbed) AddRedis(args ...string) (*Redis, error) {
	return b.addRedis(append([]string{"--save", "", "--appendonly", "no"}, args...)...)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// addRedis starts a redis-server or, by its arguments, a sentinel.
func (b *Testbed) addRedis(args ...string) (*Redis, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	r := &Redis{Address: address}
	r.args = append(args[:len(args):len(args)], "--bind", "127.0.0.1", "--port", port)
	return r, b.startRedis(r)
}

func (b *Testbed) startRedis(r *Redis) (err error) {
	if r.process, err = b.start(nil, "redis-server", r.args...); err != nil {
		return err
	}
	r.PID = r.process.PID
	ready := "eady to accept connections"
	if slices.Contains(r.args, "--sentinel") {
		ready = "Sentinel ID is"
	}
	_, err = r.process.Await(ready)
	return err
}

// StopRedis stops a Redis.
func (b *Testbed) StopRedis(r *Redis) error { return b.forget(r.process) }

// StartRedis restarts a Redis that StopRedis has stopped.
func (b *Testbed) StartRedis(r *Redis) error { return b.startRedis(r) }

// RestartRedis stops a Redis and starts it again, with the data it has stored.
func (b *Testbed) RestartRedis(r *Redis) error {
	return errors.Join(b.forget(r.process), b.startRedis(r))
}

// A Postgres is a private PostgreSQL server, on a socket.
type Postgres struct {
	URL string

	bin, folder string
	process     *subprocess.Process
}

// postgresPrograms returns the folder of PostgreSQL's programs.
func postgresPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(errors.New("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/initdb"), err)
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// HasPostgres reports whether this machine can run a private PostgreSQL.
func HasPostgres() bool {
	_, err := postgresPrograms()
	if err == nil && os.Geteuid() == 0 {
		_, err = user.Lookup(postgresUser)
	}
	return err == nil
}

// postgresUser runs the server, which refuses to run as root.
const postgresUser = "postgres"

// asServer returns the command line with which the server's user runs a program.
func asServer(program string, args ...string) []string {
	line := append([]string{program}, args...)
	if os.Geteuid() == 0 {
		line = append([]string{"setpriv", "--reuid=" + postgresUser, "--regid=" + postgresUser, "--clear-groups"}, line...)
	}
	return line
}

// startPostgres creates and starts a server that does not sync to disk.
func (b *Testbed) startPostgres() (_ *Postgres, err error) {
	p := &Postgres{}
	if p.bin, err = postgresPrograms(); err != nil {
		return nil, err
	}
	// A socket's path must be short, and the server's user must be able to enter every parent folder.
	if p.folder, err = os.MkdirTemp("", "sara-pg-"); err != nil {
		return nil, err
	}
	b.folders = append(b.folders, p.folder)
	if owner, err := user.Lookup(postgresUser); os.Geteuid() == 0 && err == nil {
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(p.folder, uid, gid); err != nil {
			return nil, err
		}
	}
	p.URL = "postgres:///postgres?host=" + p.folder + "&user=sara&sslmode=disable"
	line := asServer(filepath.Join(p.bin, "initdb"), "--pgdata="+filepath.Join(p.folder, "data"), "--username=sara", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	initdb := exec.Command(line[0], line[1:]...)
	initdb.Dir = p.folder
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("create a PostgreSQL data folder: %w\n%s", err, out)
	}
	return p, b.runPostgres(p)
}

func (b *Testbed) runPostgres(p *Postgres) (err error) {
	line := asServer(filepath.Join(p.bin, "postgres"), "-D", filepath.Join(p.folder, "data"), "-k", p.folder, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "max_connections=100", "-c", "logging_collector=off", "-c", "log_destination=stderr")
	// Its log is on standard error, and what Start waits for is on standard output.
	p.process, err = b.startProcess(subprocess.Config{Program: "sh", Args: append([]string{"-c", `exec "$@" 2>&1`, "sh"}, line...), Env: os.Environ()})
	if err != nil {
		return err
	}
	_, err = p.process.Await("ready to accept connections")
	return err
}

// RestartPostgres stops the server, which ends its connections, and starts it again.
func (b *Testbed) RestartPostgres() error {
	if err := b.StopPostgres(); err != nil {
		return err
	}
	return b.StartPostgres()
}

// StartPostgres restarts the server that StopPostgres has stopped.
func (b *Testbed) StartPostgres() error { return b.runPostgres(b.Postgres) }

// StopPostgres stops the server, which ends its connections.
func (b *Testbed) StopPostgres() error {
	if err := syscall.Kill(b.Postgres.process.PID, syscall.SIGINT); err != nil { // SIGTERM would wait for the clients to leave
		return err
	}
	killer := time.AfterFunc(20*time.Second, func() { _ = b.Postgres.Signal(syscall.SIGKILL) }) // it may be paused
	defer killer.Stop()
	<-b.Postgres.process.Ended
	_ = b.forget(b.Postgres.process) // it was asked to end
	return nil
}

// Signal sends a signal, such as SIGSTOP, to all processes of the server.
func (p *Postgres) Signal(signal syscall.Signal) error {
	pids, err := p.process.PIDs()
	if err != nil {
		return err
	}
	return signalAll(pids, signal)
}

// signalAll sends a signal to processes, some of which may have ended, as that of a connection may at any time.
func signalAll(pids []int, signal syscall.Signal) error {
	var failures []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); !errors.Is(err, syscall.ESRCH) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// Query returns the output of a statement, one line for each row.
func (p *Postgres) Query(ctx context.Context, statement string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(p.bin, "psql"), "-AtX", "-c", statement, p.URL).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", statement, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// database starts the database, if it is a server, and returns its URL.
func (b *Testbed) database(c Config) (url string, err error) {
	if !c.Postgres {
		return "sqlite:" + b.Database(), nil
	}
	if b.Postgres, err = b.startPostgres(); err != nil {
		return "", err
	}
	migrate := exec.Command(b.binary, "migrate")
	migrate.Env, migrate.Dir = append(b.env, "SARA_DATABASE_URL="+b.Postgres.URL), b.folder
	if out, err := migrate.CombinedOutput(); err != nil {
		return "", fmt.Errorf("sara migrate: %w\n%s", err, out)
	}
	if c.Pooler {
		return b.startPooler()
	}
	return b.Postgres.URL, nil
}

// AddServer starts a server other than sara, which prints "listening on" and its address, and returns the address.
func (b *Testbed) AddServer(program string, args ...string) (address string, pid int, err error) {
	p, err := b.start(nil, program, args...)
	if err != nil {
		return "", 0, err
	}
	address, err = p.Await("listening on ")
	return address, p.PID, err
}
