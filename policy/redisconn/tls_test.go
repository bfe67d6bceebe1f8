package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The certificate is for example.com and 127.0.0.1.
func TestCertificateIsForTheHostOfTheURLOrForTheServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ofURL, dialled string
		valid          bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"example.com", "localhost", true},
		{"sentinel.internal", "127.0.0.1", true},
		{"sentinel.internal", "localhost", false},
		{"localhost", "localhost", false},
	} {
		dial := dialer(&redis.Options{DialTimeout: time.Minute, TLSConfig: &tls.Config{RootCAs: trusted, ServerName: test.ofURL}})
		conn, err := dial(t.Context(), "tcp4", net.JoinHostPort(test.dialled, port))
		if test.valid != (err == nil) || err != nil && !errors.As(err, new(x509.HostnameError)) {
			t.Errorf("of a URL of %s, %s is dialled: %v", test.ofURL, test.dialled, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
