package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// settable is a clock for Config.Now that tests set.
type settable struct{ nanos atomic.Int64 }

func (s *settable) Now() time.Time          { return time.Unix(0, s.nanos.Load()) }
func (s *settable) advance(d time.Duration) { s.nanos.Add(int64(d)) }

func TestTokenRefreshesAreCoalesced(t *testing.T) {
	g := newGoogle(t, ok(empty))
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	var reads atomic.Int64
	inner := acct.Credentials
	acct.Credentials = func(ctx context.Context) ([]byte, error) {
		reads.Add(1)
		return inner(ctx)
	}
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if g.tokens.Load() != 1 || reads.Load() != 1 || g.calls() != 50 {
		t.Errorf("%d token requests, %d reads of the credentials, %d calls", g.tokens.Load(), reads.Load(), g.calls())
	}
}

func TestCanceledCallerDoesNotFailTheOthers(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	g := newGoogle(t, ok(empty))
	g.token = func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"access-1","expires_in":3599}`) // reported by the client
	}
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	hasty, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	go func() { left <- c.check(hasty, acct) }()
	<-arrived // the refresh that the hasty caller started
	go func() { stayed <- c.check(t.Context(), acct) }()
	leave()
	if err := <-left; kindOf(t, err) != Interrupted {
		t.Errorf("the caller that left: %v", err)
	}
	close(release)
	if err := <-stayed; err != nil || g.tokens.Load() != 1 {
		t.Errorf("the caller that stayed: %v after %d token requests", err, g.tokens.Load())
	}
}

func TestTokensAreReplacedAMinuteBeforeTheyExpire(t *testing.T) {
	g := newGoogle(t, ok(empty))
	clock := new(settable)
	cfg := g.config()
	cfg.Now = clock.Now
	c, acct := startClient(t, cfg), account(t, authorizedUser())
	f := func(advance time.Duration, want int64) {
		t.Helper()
		clock.advance(advance)
		if err := c.check(t.Context(), acct); err != nil || g.tokens.Load() != want {
			t.Errorf("%d token requests, want %d; %v", g.tokens.Load(), want, err)
		}
	}
	f(0, 1)
	f(58*time.Minute, 1)
	f(59*time.Second, 2) // 58:59, expiry at 59:59
	f(58*time.Minute, 2)
}

func TestTokenRequestForms(t *testing.T) {
	_, key := newKey(t)
	f := func(name string, file func(url string) map[string]any, want map[string]string) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, ok(empty))
			var sent string
			g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/token" {
					g.ServeHTTP(w, r)
					return
				}
				if err := r.ParseForm(); err != nil {
					t.Error(err)
				}
				sent = r.PostForm.Encode()
				for name, value := range want {
					if got := r.PostForm.Get(name); !strings.HasPrefix(got, value) {
						t.Errorf("%s = %q, want %q", name, got, value)
					}
				}
				ok(`{"access_token":"a","expires_in":3599}`)(w, r)
			})
			if err := startClient(t, g.config()).check(t.Context(), account(t, file(g.URL))); err != nil || sent == "" {
				t.Errorf("%v with form %q", err, sent)
			}
		})
	}
	f("user", func(string) map[string]any { return authorizedUser() }, map[string]string{
		"grant_type": "refresh_token", "refresh_token": testRefreshToken, "client_id": "client-1", "client_secret": testClientSecret,
	})
	f("service account", func(url string) map[string]any { return serviceAccount(key, url+"/token") }, map[string]string{
		"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "eyJ",
	})
}

func TestRevokedConnectionIsRefusedForTenSeconds(t *testing.T) {
	g := newGoogle(t, ok(empty))
	var repaired atomic.Bool
	g.token = func(w http.ResponseWriter, r *http.Request) {
		if repaired.Load() {
			ok(`{"access_token":"a","expires_in":3599}`)(w, r)
			return
		}
		status(400, string(fixture(t, "token_revoked.json")))(w, r)
	}
	clock := new(settable)
	cfg := g.config()
	cfg.Now = clock.Now
	c, acct := startClient(t, cfg), account(t, authorizedUser())
	revoked := func(advance time.Duration, wantRequests int64) {
		t.Helper()
		clock.advance(advance)
		if err := c.check(t.Context(), acct); err == nil || kindOf(t, err) != Revoked || g.tokens.Load() != wantRequests {
			t.Errorf("%v after %d token requests, want %d", err, g.tokens.Load(), wantRequests)
		}
	}
	revoked(0, 1)
	revoked(9*time.Second, 1)
	revoked(time.Second, 2)
	repaired.Store(true)
	revoked(9*time.Second, 2)

	reconnected := acct
	reconnected.Revision++
	if err := c.check(t.Context(), reconnected); err != nil {
		t.Errorf("a new revision waits for the old one's refusal: %v", err)
	}
	clock.advance(time.Second)
	if err := c.check(t.Context(), acct); err != nil {
		t.Errorf("a repaired connection is still refused: %v", err)
	}
}

// The token endpoint works if it refuses one connection, also with an error code that this package does not know.
func TestUnknownRefusalOfOneConnectionDoesNotBlockOthers(t *testing.T) {
	g := newGoogle(t, ok(empty))
	g.token = func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("refresh_token") == testRefreshToken {
			ok(`{"access_token":"a","expires_in":3599}`)(w, r)
			return
		}
		status(400, `{"error":"restricted_client","error_description":"The client is restricted."}`)(w, r)
	}
	clock := new(settable)
	cfg := g.config()
	cfg.Now = clock.Now
	c := startClient(t, cfg)
	refused, other := account(t, with(authorizedUser(), "refresh_token", "1//another-refresh-token")), account(t, authorizedUser())
	other.ID = "connection-2"
	const refusals = 2 * failuresToOpen * maxAttempts
	for range refusals {
		clock.advance(deadMemory)
		for range 2 { // the second is refused from memory
			if err := c.check(t.Context(), refused); kindOf(t, err) != Unavailable || !strings.Contains(err.Error(), "restricted") {
				t.Fatal(err)
			}
		}
	}
	if n := g.tokens.Load(); n != refusals {
		t.Errorf("%d token requests, want %d", n, refusals)
	}
	if err := c.check(t.Context(), other); err != nil {
		t.Errorf("another connection: %v", err)
	}
}

func TestFreshTokenThatIsRefusedRevokesTheConnection(t *testing.T) {
	g := newGoogle(t, status(401, "{}"))
	clock := new(settable)
	cfg := g.config()
	cfg.Now = clock.Now
	c, acct := startClient(t, cfg), account(t, authorizedUser())
	for range 3 {
		if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); kindOf(t, err) != Revoked {
			t.Error(err)
		}
	}
	if g.calls() != 2 || g.tokens.Load() != 2 {
		t.Errorf("%d calls and %d tokens, want 2 and 2", g.calls(), g.tokens.Load())
	}
}

func TestLateRefusalOfAnOldTokenKeepsTheNewOne(t *testing.T) {
	g := newGoogle(t, ok(empty))
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	for range 2 {
		if err := c.check(t.Context(), acct); err != nil {
			t.Fatal(err)
		}
		c.tokens.drop(acct, "access-1")
		c.tokens.refuse(acct, "access-1", &Error{Kind: Revoked})
	}
	if err := c.check(t.Context(), acct); err != nil || g.tokens.Load() != 2 {
		t.Errorf("%v after %d token requests, want 2", err, g.tokens.Load())
	}
}

func TestTransientTokenFailuresAreRetried(t *testing.T) {
	g := newGoogle(t, ok(empty))
	g.token = func(w http.ResponseWriter, r *http.Request) {
		switch g.tokens.Load() {
		case 1:
			status(503, "busy")(w, r)
		case 2:
			drop(w, r)
		default:
			ok(`{"access_token":"a","expires_in":3599}`)(w, r)
		}
	}
	if err := startClient(t, g.config()).check(t.Context(), account(t, authorizedUser())); err != nil || g.tokens.Load() != 3 {
		t.Errorf("%v after %d token requests", err, g.tokens.Load())
	}
}

func TestUnusableCredentials(t *testing.T) {
	g := newGoogle(t, ok(empty))
	c := startClient(t, g.config())
	broken := account(t, without(authorizedUser(), "refresh_token"))
	if err := c.check(t.Context(), broken); kindOf(t, err) != Misconfigured || !strings.Contains(err.Error(), "refresh_token") {
		t.Errorf("a broken file: %v", err)
	}
	sealed := errors.New("wrong key")
	unreadable := Account{ID: "c2", Credentials: func(context.Context) ([]byte, error) { return nil, sealed }}
	err := c.check(t.Context(), unreadable)
	if _, is := errors.AsType[*Error](err); is || !errors.Is(err, sealed) {
		t.Errorf("unreadable credentials are an upstream error: %v", err)
	}
	if g.tokens.Load() != 0 {
		t.Errorf("%d token requests", g.tokens.Load())
	}
}

// A bug in a store must not end the process, or leave its callers waiting.
func TestPanicOfTheStoreIsAnError(t *testing.T) {
	c, acct := startClient(t, newGoogle(t, ok(empty)).config()), account(t, authorizedUser())
	broken := acct
	broken.Credentials = func(context.Context) ([]byte, error) { panic("out of range") }
	if err := c.check(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("got %v", err)
	}
	if err := c.check(t.Context(), acct); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestTokenEntriesAreBounded(t *testing.T) {
	memory := newTokens(Config{Now: time.Now}, newMetrics())
	for revision := range maxConnections + 10 {
		memory.entry(Account{ID: "a", Revision: revision})
	}
	if len(memory.entries) != maxConnections {
		t.Errorf("%d entries, want %d", len(memory.entries), maxConnections)
	}
}

func TestTokenEndpointRedirectIsNotFollowed(t *testing.T) {
	elsewhere := newGoogle(t, ok(empty))
	g := newGoogle(t, ok(empty))
	g.token = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/token", http.StatusTemporaryRedirect)
	}
	err := startClient(t, g.config()).check(t.Context(), account(t, authorizedUser()))
	if err == nil || elsewhere.tokens.Load() != 0 {
		t.Errorf("%v, %d requests elsewhere", err, elsewhere.tokens.Load())
	}
}
