package upstream

import (
	"slices"
	"testing"
)

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
