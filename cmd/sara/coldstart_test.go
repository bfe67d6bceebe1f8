package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/policy/redistest"
)

// A databaseFront is a TCP address of a database that only has a socket, and which can be away.
type databaseFront struct {
	t       *testing.T
	socket  string
	address string
	url     string

	mu       sync.Mutex // guards the following fields
	listener net.Listener
	open     []net.Conn
	done     sync.WaitGroup
}

// inFrontOf returns a front that is up.
func inFrontOf(t *testing.T, database string) *databaseFront {
	t.Helper()
	location, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	parameters := location.Query()
	f := &databaseFront{t: t, socket: filepath.Join(parameters.Get("host"), ".s.PGSQL.5432"), address: "127.0.0.1:0"}
	f.up()
	f.address = f.listener.Addr().String()
	host, port, err := net.SplitHostPort(f.address)
	if err != nil {
		t.Fatal(err)
	}
	parameters.Set("host", host)
	parameters.Set("port", port)
	location.RawQuery = parameters.Encode()
	f.url = location.String()
	t.Cleanup(f.down)
	return f
}

func (f *databaseFront) up() {
	f.t.Helper()
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.listener = listener
	f.done.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", f.socket)
			if err != nil {
				_ = client.Close()
				continue
			}
			f.join(client, server)
		}
	})
}

// join copies in both directions until either side closes.
func (f *databaseFront) join(client, server net.Conn) {
	f.mu.Lock()
	f.open = append(f.open, client, server)
	f.mu.Unlock()
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		f.done.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // ends when either is closed
			_ = errors.Join(pair[0].Close(), pair[1].Close())
		})
	}
}

// down closes everything: connections are refused.
func (f *databaseFront) down() {
	_ = f.listener.Close()
	f.mu.Lock()
	for _, conn := range f.open {
		_ = conn.Close()
	}
	f.open = nil
	f.mu.Unlock()
	f.done.Wait()
}

// A coldWorld is a Redis, a database behind a front, and keys, of which a replica has kept a snapshot.
type coldWorld struct {
	*clitest.CLI
	t       *testing.T
	binary  string
	front   *databaseFront
	redis   *redistest.Server
	env     []string // of replicas; the command lines reach the database also when the front is down
	known   string   // keys: that a replica has looked up
	knownID string
	revoked string // that was looked up after it was revoked
	unknown string // that was not looked up
}

func newColdWorld(t *testing.T, binary string, postgres *pgtest.Server) *coldWorld {
	t.Helper()
	database := postgres.NewDatabase(t)
	people, _ := clitest.Simulate(t)
	w := &coldWorld{CLI: clitest.New(t, sara).Against(people), t: t, binary: binary, front: inFrontOf(t, database), redis: redistest.Single(t)}
	w.CLI.Env = append(w.CLI.Env, "SARA_DATABASE_URL="+database, "SARA_REDIS_URL="+w.redis.URL())
	w.env = append(w.CLI.Env[:len(w.CLI.Env):len(w.CLI.Env)], "SARA_DATABASE_URL="+w.front.url)
	newKey := w.Customer()
	w.WithProperty()
	w.known, w.knownID = newKey("known")
	revoked, revokedID := newKey("revoked")
	w.revoked = revoked
	w.unknown, _ = newKey("unknown")
	w.OK("key", "revoke", revokedID)
	return w
}

// warm starts a replica while the database is there, and stops it once it has kept a snapshot of two keys and the property.
func (w *coldWorld) warm() {
	w.t.Helper()
	p, base, admin := serving(w.t, w.binary, w.env)
	clitest.Poll(w.t, "a snapshot of two keys and the property", func() bool {
		// The first live call marks the connection as healthy, a change that voids what the replica knows. A snapshot that is written during a
		// request can have its key without its property, and the next one is merged with it: so the one that counts is begun after both requests.
		clitest.WantStatus(w.t, http.StatusOK, base+"/v1/properties/shop/queries", w.known)
		clitest.WantStatus(w.t, http.StatusUnauthorized, base+"/v1/me", w.revoked)
		w.removeSnapshot()
		clitest.Poll(w.t, "a new snapshot", w.hasSnapshot)
		return strings.Contains(clitest.Get(admin+"/metrics", "").Body, "\nsara_snapshot_keys 2\n")
	})
	p.stopped()
}

// snapshotKey is where replicas keep the snapshot in Redis.
const snapshotKey = "sara:directory"

func (w *coldWorld) removeSnapshot() {
	w.t.Helper()
	if err := w.redis.Client().Del(w.t.Context(), snapshotKey).Err(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *coldWorld) hasSnapshot() bool {
	n, err := w.redis.Client().Exists(w.t.Context(), snapshotKey).Result()
	return err == nil && n == 1
}

// wantProbe waits until /readyz answers with the status and all of the texts.
func wantProbe(t *testing.T, admin string, status int, texts ...string) {
	t.Helper()
	var last clitest.Answer
	clitest.Poll(t, "/readyz answers "+strings.Join(texts, ", "), func() bool {
		last = clitest.Get(admin+"/readyz", "")
		for _, text := range texts {
			if !strings.Contains(last.Body, text) {
				return false
			}
		}
		return last.Status == status
	})
}

// A replica that starts while PostgreSQL is away goes on with what the others knew, and as usual once it is back.
func testColdStart(t *testing.T, binary string, postgres *pgtest.Server) {
	w := newColdWorld(t, binary, postgres)
	w.warm()
	w.front.down()
	p, base, admin := serving(t, binary, w.env)
	wantProbe(t, admin, http.StatusOK, "degraded: ", "the database is away, only keys",
		"started without the database, with what other replicas knew at ")
	for _, series := range []string{`sara_degraded{reason="snapshot"} 1`, `sara_degraded{reason="database"} 1`, "sara_ready 1"} {
		if !strings.Contains(clitest.Get(admin+"/metrics", "").Body, series) {
			t.Errorf("no series %s", series)
		}
	}
	clitest.WantStatus(t, http.StatusOK, base+"/v1/me", w.known)
	clitest.WantStatus(t, http.StatusOK, base+"/v1/properties/shop/queries", w.known)
	if a := clitest.WantStatus(t, http.StatusUnauthorized, base+"/v1/me", w.revoked); !strings.Contains(a.Body, "API_KEY_REVOKED") {
		t.Errorf("the revoked key: %s", a.Body)
	}
	if a := clitest.WantStatus(t, http.StatusServiceUnavailable, base+"/v1/me", w.unknown); !strings.Contains(a.Body, "SERVICE_UNAVAILABLE") {
		t.Errorf("a key that is not in the snapshot: %s", a.Body)
	}
	clitest.WantStatus(t, http.StatusServiceUnavailable, base+"/v1/properties", w.known)

	w.front.up()
	wantProbe(t, admin, http.StatusOK, "ready\n")
	clitest.WantStatus(t, http.StatusOK, base+"/v1/me", w.unknown)
	clitest.WantStatus(t, http.StatusOK, base+"/v1/properties", w.known)
	w.OK("key", "revoke", w.knownID)
	clitest.Poll(t, "the revoked key is refused", func() bool { return clitest.Get(base+"/v1/me", w.known).Status == http.StatusUnauthorized })
	p.stopped()
}

// What a replica without the database says and does when there is no snapshot that it may use.
func testColdStartRefused(t *testing.T, binary string, postgres *pgtest.Server) {
	w := newColdWorld(t, binary, postgres)
	w.warm()
	w.front.down()
	refuses := func(why string, env ...string) (p *process, base, admin string) {
		t.Helper()
		p, base, admin = serving(t, binary, append(w.env[:len(w.env):len(w.env)], env...))
		wantProbe(t, admin, http.StatusServiceUnavailable, "not ready: the database does not answer", "no snapshot replaces it: "+why)
		clitest.WantStatus(t, http.StatusServiceUnavailable, base+"/v1/me", w.known)
		if !strings.Contains(p.stderr.String(), why) {
			t.Errorf("the log lacks %q:\n%s", why, p.stderr)
		}
		return p, base, admin
	}
	p, _, _ := refuses("the snapshot in Redis was sealed with another secret key", "SARA_SECRET_KEY=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	p.stopped()

	// A revocation that reaches the database, and Redis, but not the replica.
	p, base, _ := serving(t, binary, w.env)
	clitest.Poll(t, "the key is known", func() bool { return clitest.Get(base+"/v1/me", w.known).Status == http.StatusOK })
	w.OK("key", "revoke", w.knownID)
	clitest.Poll(t, "the key is not used any more", func() bool { return clitest.Get(base+"/v1/me", w.known).Status == http.StatusServiceUnavailable })
	p.stopped()
	p, _, _ = refuses("the directory has changed since the snapshot in Redis")
	p.stopped()

	if err := w.redis.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p, base, admin := refuses("there is no snapshot in Redis")
	w.front.up()
	wantProbe(t, admin, http.StatusOK, "ready\n")
	clitest.WantStatus(t, http.StatusUnauthorized, base+"/v1/me", w.known)
	p.stopped()

	w.front.down()
	w.env = append(w.env, "SARA_REDIS_URL=")
	ended := start(t, binary, w.env, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if _, err := ended.wait(); err == nil || !strings.Contains(ended.stderr.String(), "without SARA_REDIS_URL, there is no snapshot") {
		t.Errorf("without Redis: %v\n%s", err, ended.stderr)
	}
}
