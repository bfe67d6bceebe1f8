package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sara/bench/internal/subprocess"
)

// poolerPort only names the socket: the pooler does not listen on the network.
const poolerPort = 6432

// poolerProgram returns PgBouncer, which Debian installs where not all users look.
func poolerProgram() (string, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	return program, err
}

// HasPooler reports whether this machine can run PgBouncer.
func HasPooler() bool {
	_, err := poolerProgram()
	return err == nil && HasPostgres()
}

// startPooler configures and starts PgBouncer in transaction mode, and returns the URL of the database behind it.
func (b *Testbed) startPooler() (url string, err error) {
	config := fmt.Sprintf("[databases]\n* = host=%[1]s user=sara\n[pgbouncer]\nlisten_addr =\nlisten_port = %[2]d\nunix_socket_dir = %[1]s\n"+
		"auth_type = any\npool_mode = transaction\ndefault_pool_size = 10\nserver_round_robin = 1\nserver_login_retry = 1\n"+
		"logfile = %[1]s/pooler.log\npidfile =\n", b.Postgres.folder, poolerPort)
	if err := os.WriteFile(b.poolerFile(), []byte(config), 0o644); err != nil { // another user reads it
		return "", err
	}
	return strings.Replace(b.Postgres.URL, "&user=", fmt.Sprintf("&port=%d&user=", poolerPort), 1), b.StartPooler()
}

func (b *Testbed) poolerFile() string { return filepath.Join(b.Postgres.folder, "pooler.ini") }

// StartPooler starts PgBouncer, for the first time or after StopPooler, and waits until it listens.
func (b *Testbed) StartPooler() error {
	program, err := poolerProgram()
	if err != nil {
		return err
	}
	// It reports failure when it ends by SIGTERM.
	line := append([]string{"-c", `trap 'kill $!' TERM; "$@" & wait; wait`, "sh"}, asServer(program, "--quiet", b.poolerFile())...)
	if b.pooler, err = b.startProcess(subprocess.Config{Program: "sh", Args: line, Env: os.Environ()}); err != nil {
		return err
	}
	socket := filepath.Join(b.Postgres.folder, fmt.Sprintf(".s.PGSQL.%d", poolerPort))
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(20 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("PgBouncer does not listen")
		}
	}
}

// StopPooler stops PgBouncer, which ends the connections of its clients.
func (b *Testbed) StopPooler() error {
	pooler := b.pooler
	b.pooler = nil
	return b.forget(pooler)
}
