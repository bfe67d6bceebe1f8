// Package cdn_test runs the configuration of this folder in nginx: in front of replicas of sara, and in front of servers that
// do what sara seldom does.
package cdn_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hurry is how long anything here may take: far longer than it does, far shorter than the test's own limit.
const hurry = 30 * time.Second

// A cdn is a running nginx.
type cdn struct {
	t           *testing.T
	folder      string // of all that it writes
	base        string // its address
	secure      string // the one with TLS
	secureAsker *http.Client
	process     *exec.Cmd
	ended       chan struct{}
}

// startCDN runs nginx in front of two addresses until the test ends. The configuration is the one of this folder, but for
// addresses and paths.
func startCDN(t *testing.T, replicas [2]string) *cdn {
	t.Helper()
	program := findNginx(t)
	c := &cdn{t: t, folder: t.TempDir(), ended: make(chan struct{})}
	plain, secure := freeAddress(t), freeAddress(t)
	c.base, c.secure = "http://"+plain, "https://"+secure
	c.adapt("nginx.conf", "/var/cache/nginx", c.folder, "/var/log/nginx", c.folder)
	c.adapt("upstream.conf", "sara-1:8080", replicas[0], "sara-2:8080", replicas[1])
	c.adapt("site.conf", "listen 8080;", "listen "+plain+";", "# include tls.conf;", "include tls.conf;", "http://localhost:8080", c.base)
	c.adapt("tls.conf", "listen 8443 ", "listen "+secure+" ", "/etc/nginx/tls", c.folder)
	c.certify()
	// Its workers have to get into the test's folder, which is closed to users other than the test's.
	c.process = exec.CommandContext(t.Context(), program, "-p", c.folder, "-c", filepath.Join(c.folder, "nginx.conf"), "-e", filepath.Join(c.folder, "error.log"),
		"-g", "daemon off; user root; pid "+filepath.Join(c.folder, "nginx.pid")+";")
	said := new(bytes.Buffer)
	c.process.Stdout, c.process.Stderr = said, said
	c.process.Cancel = func() error { return c.process.Process.Signal(syscall.SIGTERM) }
	c.process.WaitDelay = hurry
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.process.Wait() // how it ends does not matter: what it should have done before does
	}()
	t.Cleanup(func() { <-c.ended })
	c.awaitListening(plain, said)
	return c
}

// findNginx finds nginx also where only root's PATH leads.
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// adapt copies a file of the configuration with texts replaced, all of which have to be there.
func (c *cdn) adapt(name string, changes ...string) {
	c.t.Helper()
	content, err := os.ReadFile(filepath.Join("nginx", name))
	if err != nil {
		c.t.Fatal(err)
	}
	text := string(content)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			c.t.Fatalf("%s has no %q any more", name, changes[i])
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

// certify gives nginx the certificate of Go's test servers, and makes a client that trusts it.
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
}

func (c *cdn) awaitListening(address string, said fmt.Stringer) {
	c.t.Helper()
	poll(c.t, "nginx listens", func() bool {
		select {
		case <-c.ended:
			c.t.Fatalf("nginx has ended: %s", said)
		default:
		}
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
}

// poll asks until something holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hurry)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// logs ends nginx, when all answers are logged, and returns what it wrote.
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

// An answer is what came back from a request.
type answer struct {
	status   int
	protocol string
	header   http.Header
	body     []byte
}

// client asks for what it is told to, and opens what it gets as it came. A connection may begin at any address of this machine.
func client(from string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Timeout: hurry, Transport: &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 64}}
}

// ask sends a GET with headers, each a name and a value.
func ask(asker *http.Client, method, address string, headers ...string) (answer, error) {
	request, err := http.NewRequest(method, address, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := asker.Do(request)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Proto, response.Header, body}, errors.Join(err, response.Body.Close())
}
