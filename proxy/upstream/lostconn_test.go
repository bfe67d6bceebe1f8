package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"sara/proxy/upstream/losttest"
)

// A connection over HTTP/2 that the network has lost is closed: a request that times out does not close it, so that all later ones would
// wait on it as well, until the operating system gives it up after a quarter of an hour.
func TestLostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, stop := losttest.Serve(&google{})
		defer stop()
		c := startClient(t, Config{TokenURL: "https://" + losttest.Host + "/token"})
		network.Join(t, c.tokens.httpClient.Transport)
		acct := account(t, authorizedUser())
		refresh := func() error {
			access, err := c.tokens.get(t.Context(), acct)
			c.tokens.drop(acct, access)
			return err
		}
		for range 2 {
			if err := refresh(); err != nil || network.Dials() != 1 {
				t.Fatalf("over %d connections: %v", network.Dials(), err)
			}
		}
		network.Lose()
		began := time.Now()
		for refresh() != nil && time.Since(began) < time.Minute {
		}
		if took := time.Since(began); took > 20*time.Second || network.Dials() != 2 {
			t.Errorf("a token comes after %v, over %d connections", took, network.Dials())
		}
		c.close()
	})
}
