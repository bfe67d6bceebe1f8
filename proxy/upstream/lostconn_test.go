package upstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sara/proxy/upstream/losttest"
)

// A lost HTTP/2 connection is closed. A request that times out does not close it, so without pings all later requests would
// hang on it too, until the operating system gives it up after a quarter of an hour.
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

// Where the network has lost all idle connections, one attempt fails on one of them, and the next uses a new one. Without HTTP/2, that is
// so for the generated client too.
func TestLostIdleConnectionsCostOneAttempt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		idle int64
		ask  func(context.Context, *client, Account) error
	}{
		"query": {maxAttempts + 1, func(ctx context.Context, c *client, acct Account) error {
			_, err := c.searchAnalytics(ctx, acct, site, queryBody, nil)
			return err
		}},
		"sites": {http.DefaultMaxIdleConnsPerHost, func(ctx context.Context, c *client, acct Account) error {
			_, err := c.sites(ctx, acct)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var known sync.Map // the addresses of their client sides
			var lost atomic.Bool
			var arrived atomic.Int64
			together := make(chan struct{}) // so that each has a connection
			g := newGoogle(t, func(w http.ResponseWriter, r *http.Request) {
				if !lost.Load() {
					known.Store(r.RemoteAddr, true)
					if arrived.Add(1) == test.idle {
						close(together)
					}
					<-together
				} else if _, isLost := known.Load(r.RemoteAddr); isLost {
					hang(w, r)
					return
				}
				ok(empty)(w, r)
			})
			cfg := g.config()
			cfg.AttemptTimeout = 300 * time.Millisecond // a busy machine has the time of two attempts to answer in
			c, acct := startClient(t, cfg), account(t, authorizedUser())
			var all sync.WaitGroup
			for range test.idle {
				all.Go(func() {
					if err := test.ask(t.Context(), c, acct); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			lost.Store(true)
			before := g.calls()
			if err := test.ask(t.Context(), c, acct); err != nil || g.calls() != before+2 {
				t.Errorf("%v after %d calls", err, g.calls()-before)
			}
		})
	}
}
