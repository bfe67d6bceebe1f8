package cdn_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// domain is the placeholder in the files of deploy/onemachine, for the reader to replace.
const domain = "api.example.com"

// startNginxSite runs nginx with nginx-site.conf in front of the machine.
func (m *machine) startNginxSite(t *testing.T) *cdn {
	t.Helper()
	program := findNginx(t)
	secure := freeAddress(t)
	c := newSite(t, secure)
	c.certify()
	certificates := "/etc/letsencrypt/live/" + domain
	c.adaptFrom(oneMachine, "nginx-site.conf", "listen 443 ssl;", "listen "+secure+" ssl;", "listen [::]:443 ssl;", "", "127.0.0.1:8080", m.listen,
		certificates+"/fullchain.pem", c.folder+"/tls.crt", certificates+"/privkey.pem", c.folder+"/tls.key")
	c.write("nginx.conf", []byte("error_log "+c.folder+"/error.log;\nevents {}\nhttp {\n"+
		"\tclient_body_temp_path "+c.folder+"/body;\n\tproxy_temp_path "+c.folder+"/proxy;\n"+
		"\tfastcgi_temp_path "+c.folder+"/fastcgi;\n\tuwsgi_temp_path "+c.folder+"/uwsgi;\n"+
		"\tscgi_temp_path "+c.folder+"/scgi;\n\tinclude nginx-site.conf;\n}\n"))
	c.startNginx(program, secure)
	return c
}

// startCaddySite runs Caddy with the Caddyfile in front of the machine. Global options are put before it, so that Caddy listens only on
// this machine, and its own authority signs the certificate.
func (m *machine) startCaddySite(t *testing.T) *cdn {
	t.Helper()
	program, err := exec.LookPath("caddy")
	if err != nil {
		t.Skip("caddy is not installed")
	}
	secure := freeAddress(t)
	c := newSite(t, secure)
	_, port, err := net.SplitHostPort(secure)
	if err != nil {
		t.Fatal(err)
	}
	c.adaptFrom(oneMachine, "Caddyfile", domain+" {\n", "{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\thttps_port "+port+
		"\n\tlocal_certs\n\tskip_install_trust\n}\n"+domain+" {\n", "127.0.0.1:8080", m.listen)
	c.start(secure, program, "run", "--config", filepath.Join(c.folder, "Caddyfile"))
	c.roots = x509.NewCertPool()
	poll(t, "Caddy's authority exists", func() bool {
		root, err := os.ReadFile(filepath.Join(c.folder, "caddy/pki/authorities/local/root.crt"))
		return err == nil && c.roots.AppendCertsFromPEM(root)
	})
	// It signs the certificate once it serves.
	poll(t, "Caddy has a certificate", func() bool {
		a, err := ask(c.siteClient("127.0.0.1"), http.MethodGet, c.secure+openAPI)
		return err == nil && a.status == http.StatusOK
	})
	return c
}

// newSite returns a cdn that has the domain's URL.
func newSite(t *testing.T, secure string) *cdn {
	t.Helper()
	return &cdn{t: t, folder: t.TempDir(), secureAddress: secure, secure: "https://" + domain, ended: make(chan struct{})}
}

// siteClient returns a client that connects to the site from a loopback address, whatever host it asks for.
func (c *cdn) siteClient(from string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, c.secureAddress)
		},
		TLSClientConfig:    &tls.Config{RootCAs: c.roots},
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}}
}

// wantSite checks what clients of the domain get. No other clients may use the addresses of the guesser and its neighbour.
func (c *cdn) wantSite(m *machine, key, guesser, neighbour string) {
	t := c.t
	t.Helper()
	asker := c.siteClient("127.0.0.1")
	for _, path := range []string{"/v1/properties", "/docs", "/v1/me?x=" + strings.Repeat("x", 24<<10-len("/v1/me?x="))} {
		direct, err := ask(m.asker, http.MethodGet, m.base+path, "Authorization", "Bearer "+key)
		if err != nil {
			t.Fatal(err)
		}
		through, err := ask(asker, http.MethodGet, c.secure+path, "Authorization", "Bearer "+key)
		if err != nil || through.fixed() != direct.fixed() {
			t.Errorf("%.40s over TLS: %v, %s, but directly %s", path, err, through.fixed(), direct.fixed())
		}
		for _, name := range []string{"Content-Type", "Cache-Control", "Vary", "Etag", "X-Content-Type-Options", "X-Ratelimit-Limit"} {
			if through.header.Get(name) != direct.header.Get(name) {
				t.Errorf("%.40s over TLS: %s is %q, but directly %q", path, name, through.header.Get(name), direct.header.Get(name))
			}
		}
	}
	if a, err := ask(asker, http.MethodGet, c.secure+"/v1/me", "Authorization", "Bearer "+guessedKey(0)); err != nil ||
		a.status != http.StatusUnauthorized {
		t.Errorf("with an unknown key: %v, %d %s", err, a.status, a.body)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/"} {
		a, err := ask(asker, http.MethodGet, c.secure+path)
		if err != nil {
			t.Error(err)
		}
		a.wantEnvelope(t, http.StatusNotFound, "NOT_FOUND")
	}
	c.wantMCP(asker, key)
	wantAddressesKept(t, c.secure, c.siteClient(guesser), c.siteClient(neighbour))
}

// wantMCP checks that agents can send their longest messages to the domain, and to no other name: a stranger's page whose name resolves
// to this machine must get nothing.
func (c *cdn) wantMCP(asker *http.Client, key string) {
	c.t.Helper()
	const longest = 32 << 10
	message := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize",` +
		`"params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	message = append(message, bytes.Repeat([]byte(" "), longest-len(message))...)
	for host, answered := range map[string]bool{domain: true, "stranger.example": false} {
		request, err := http.NewRequest(http.MethodPost, c.secure+"/mcp", bytes.NewReader(message))
		if err != nil {
			c.t.Fatal(err)
		}
		request.Host = host
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		a, err := read(asker, request)
		if err != nil || bytes.Contains(a.body, []byte("serverInfo")) != answered {
			c.t.Errorf("/mcp as %s: %v, %d %s", host, err, a.status, a.body)
		}
	}
}
