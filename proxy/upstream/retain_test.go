package upstream

import (
	"net/http"
	"slices"
	"testing"
)

// A refresh that is under way when its connection is removed answers its callers, but leaves no token.
func TestRetainDuringARefreshLeavesNoToken(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	g := newGoogle(t, ok(emptyRows))
	g.token = func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		ok(`{"access_token":"access-1","expires_in":3599}`)(w, r)
	}
	c, removed := startClient(t, g.config()), account(t, authorizedUser())
	answered := make(chan error, 1)
	go func() {
		_, err := c.tokens.get(t.Context(), removed)
		answered <- err
	}()
	<-arrived
	(&Gateway{client: c}).Retain(nil)
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	if n := len(c.tokens.entries); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func TestRetainErasesTokensOfRemovedConnections(t *testing.T) {
	t.Parallel()
	g := newGoogle(t, ok(emptyRows))
	c := startClient(t, g.config())
	gateway := &Gateway{client: c}
	kept, removed := account(t, authorizedUser()), account(t, authorizedUser())
	removed.ID = "connection-2"
	fetch := func(accounts ...Account) {
		for _, a := range accounts {
			if _, err := c.tokens.get(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
	}
	fetch(kept, removed)
	gateway.Retain([]string{kept.ID, "connection-3"})
	c.tokens.mu.Lock()
	var ids []string
	for named := range c.tokens.entries {
		ids = append(ids, named.id)
	}
	c.tokens.mu.Unlock()
	if !slices.Equal(ids, []string{kept.ID}) {
		t.Errorf("there are tokens of %v", ids)
	}
	fetch(kept)
	if n := g.tokens.Load(); n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
}
