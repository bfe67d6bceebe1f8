package clitest

import (
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

// sharedKey is the private key that all simulated service accounts share, because making one takes long.
var sharedKey = sync.OnceValues(demo.NewKey)

// SharedKey returns it.
func SharedKey() (*rsa.PrivateKey, error) { return sharedKey() }

// Simulate starts a simulated Search Console with the users of the demo.
func Simulate(t *testing.T) (*demo.Users, *gscsim.Server) {
	t.Helper()
	return SimulateBehind(t, func(simulator http.Handler) http.Handler { return simulator })
}

// SimulateBehind does so behind a handler.
func SimulateBehind(t *testing.T, wrap func(http.Handler) http.Handler) (*demo.Users, *gscsim.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	c, err := demo.NewUsers(time.Now(), "http://"+server.Listener.Addr().String(), SharedKey)
	if err != nil {
		t.Fatal(err)
	}
	simulator := gscsim.New(c.Simulation(time.Now))
	server.Config.Handler = wrap(simulator)
	server.Start()
	return c, simulator
}
