// Package cdn_test runs nginx with the configuration in this folder, in front of replicas of sara, and in front of test servers
// that behave as sara seldom does.
package cdn_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait: far above the usual duration, far below the test's timeout.
const patience = 30 * time.Second

// A cdn is a running nginx, or Caddy.
type cdn struct {
	t             *testing.T
	folder        string // for everything that it writes
	base          string // its URL
	secure        string // its URL with TLS
	secureAddress string // where it listens with TLS
	secureAsker   *http.Client
	roots         *x509.CertPool // of its certificate
	process       *exec.Cmd
	ended         chan struct{}
}

// startCDN runs nginx in front of two addresses until the test ends, with the configuration of this folder except for
// addresses and paths.
func startCDN(t *testing.T, replicas [2]string) *cdn {
	t.Helper()
	// With one client's limits, the other tests would fail: they all are one client.
	return startLimitedCDN(t, replicas, "rate=50r/s", "rate=50000r/s", "rate=20r/s", "rate=20000r/s", "burst=200", "burst=5000", "burst=100",
		"burst=5000", "limit_conn connections 100", "limit_conn connections 5000")
}

// startLimitedCDN is startCDN with changes to nginx.conf.
func startLimitedCDN(t *testing.T, replicas [2]string, limits ...string) *cdn {
	t.Helper()
	program := findNginx(t)
	c := &cdn{t: t, folder: t.TempDir(), ended: make(chan struct{})}
	plain, secure := freeAddress(t), freeAddress(t)
	c.base, c.secure, c.secureAddress = "http://"+plain, "https://"+secure, secure
	c.adapt("nginx.conf", append(limits, "/var/cache/nginx", c.folder, "/var/log/nginx", c.folder)...)
	c.adapt("upstream.conf", "sara-1:8080", replicas[0], "sara-2:8080", replicas[1])
	c.adapt("site.conf", "listen 8080;", "listen "+plain+";", "# include tls.conf;", "include tls.conf;", "http://localhost:8080", c.base)
	c.adapt("tls.conf", "listen 8443 ", "listen "+secure+" ", "/etc/nginx/tls", c.folder)
	c.certify()
	c.startNginx(program, plain)
	return c
}

// startNginx runs nginx with the nginx.conf in its folder.
func (c *cdn) startNginx(program, address string) {
	c.t.Helper()
	// Workers run as this user, because no other user can enter the test's folder.
	c.start(address, program, "-p", c.folder, "-c", filepath.Join(c.folder, "nginx.conf"), "-e", filepath.Join(c.folder, "error.log"),
		"-g", "daemon off; user root; pid "+filepath.Join(c.folder, "nginx.pid")+";")
}

// start runs a program until the test ends, with its folder as the home, and waits until it listens.
func (c *cdn) start(address, program string, args ...string) {
	c.t.Helper()
	c.process = exec.CommandContext(c.t.Context(), program, args...)
	c.process.Env = append(os.Environ(), "HOME="+c.folder, "XDG_CONFIG_HOME="+c.folder, "XDG_DATA_HOME="+c.folder)
	output := new(bytes.Buffer)
	c.process.Stdout, c.process.Stderr = output, output
	c.process.Cancel = func() error { return c.process.Process.Signal(syscall.SIGTERM) }
	c.process.WaitDelay = patience
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.process.Wait() // its exit status does not matter
	}()
	c.t.Cleanup(func() { <-c.ended })
	c.awaitListening(address, output)
}

// findNginx finds nginx, also in a folder that is only in root's PATH.
func findNginx(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	t.Skip("nginx is not installed")
	return ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	// Below the ephemeral ports: the kernel could give one of those to a connection before nginx starts.
	const first, end, attempts = 10_000, 32_000, 100
	var err error
	for range attempts {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.N(end-first)))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatalf("find a free port: %v", err)
	return ""
}

// adapt copies a file of nginx/ with replacements, all of which must apply.
func (c *cdn) adapt(name string, changes ...string) {
	c.t.Helper()
	c.adaptFrom("nginx", name, changes...)
}

func (c *cdn) adaptFrom(folder, name string, changes ...string) {
	c.t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		c.t.Fatal(err)
	}
	text := string(content)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			c.t.Fatalf("%s has no %q", name, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	c.write(name, []byte(text))
}

func (c *cdn) write(name string, content []byte) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.folder, name), content, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// certify installs the certificate of Go's test servers, and creates a client that trusts it.
func (c *cdn) certify() {
	c.t.Helper()
	donor := httptest.NewUnstartedServer(nil)
	donor.EnableHTTP2 = true
	donor.StartTLS()
	c.t.Cleanup(donor.Close)
	certificate := donor.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
	c.write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	c.secureAsker = donor.Client()
	c.roots = x509.NewCertPool()
	c.roots.AddCert(donor.Certificate())
}

func (c *cdn) awaitListening(address string, output fmt.Stringer) {
	c.t.Helper()
	poll(c.t, c.process.Path+" listens", func() bool {
		select {
		case <-c.ended:
			c.t.Fatalf("%s ended: %s", c.process.Path, output)
		default:
		}
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
}

// poll waits until a condition holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("this did not happen: %s", what)
		}
	}
}

// logs stops nginx gracefully, so all answers are logged, and returns its logs.
func (c *cdn) logs() (access, errorLog string) {
	c.t.Helper()
	if err := c.process.Process.Signal(syscall.SIGQUIT); err != nil {
		c.t.Fatal(err)
	}
	<-c.ended
	var texts [2]string
	for i, name := range []string{"access.log", "error.log"} {
		content, err := os.ReadFile(filepath.Join(c.folder, name))
		if err != nil {
			c.t.Fatal(err)
		}
		texts[i] = string(content)
	}
	return texts[0], texts[1]
}

// An answer is a response with its body.
type answer struct {
	status   int
	protocol string
	header   http.Header
	body     []byte
}

// client returns a client that does not decompress, and connects from a loopback address.
func client(from string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dialer.DialContext, DisableCompression: true,
		MaxIdleConnsPerHost: 64}}
}

// ask sends a request with headers, which are names and values in turn.
func ask(asker *http.Client, method, address string, headers ...string) (answer, error) {
	request, err := http.NewRequest(method, address, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return read(asker, request)
}

// read sends a request, and reads the answer.
func read(asker *http.Client, request *http.Request) (answer, error) {
	response, err := asker.Do(request)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Proto, response.Header, body}, errors.Join(err, response.Body.Close())
}
