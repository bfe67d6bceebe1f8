package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// poolerPort only names the socket: the pooler does not listen on the network.
const poolerPort = 6432

// StartPooler starts PgBouncer in transaction mode in front of the server, and returns the URL of an empty database behind it. It
// spreads transactions over three sessions of the server in turn, so state that a client leaves in a session reaches other clients.
// StartPooler skips the test where PgBouncer is not installed.
func (s *Server) StartPooler(tb testing.TB) (url string) {
	tb.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			tb.Skip("PgBouncer is not installed")
		}
	}
	owner, err := serverUser()
	if err != nil {
		tb.Skip(err)
	}
	folder := privateFolder(tb, owner)
	config := fmt.Sprintf(`[databases]
* = host=%s user=sara
[pgbouncer]
listen_addr =
listen_port = %d
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
logfile = %s
pidfile =
`, s.folder, poolerPort, folder, filepath.Join(folder, "log"))
	file := filepath.Join(folder, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		tb.Fatal(err)
	}
	name := s.nextName()
	s.mustExec(tb, "CREATE DATABASE "+name)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	pooler := exec.Command(program, file)
	pooler.Dir, pooler.SysProcAttr = folder, owner
	url = fmt.Sprintf("postgres:///%s?host=%s&port=%d&user=sara&sslmode=disable", name, folder, poolerPort)
	run(ctx, tb, pooler, url)
	return url
}
