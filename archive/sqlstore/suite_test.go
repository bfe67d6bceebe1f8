package sqlstore

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"testing"
	"time"
)

// database opens stores on databases of one kind.
type database struct {
	fresh func(t testing.TB) string // the URL of a new, empty database
}

func TestStore(t *testing.T) {
	databases := map[string]database{
		"sqlite": {func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "data", "sara.db") }},
		"memory": {func(testing.TB) string { return "sqlite::memory:" }},
	}
	for name, db := range databases {
		t.Run(name, func(t *testing.T) {
			t.Run("smoke", func(t *testing.T) { testSmoke(t, db) })
		})
	}
}

func testSmoke(t *testing.T, db database) {
	ctx := context.Background()
	s, err := Open(ctx, Config{URL: db.fresh(t), SecretKey: make([]byte, 32), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if n, err := s.Migrate(ctx); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.AddAccount(ctx, "acme", "pro", nil))
	must(s.AddWorkspace(ctx, "acme", "main"))
	must(s.AddPerson(ctx, "acme", "A@example.com", []string{"main"}))
	must(s.AddConnection(ctx, "main", "", []byte(`{"type":"service_account","client_email":"x@y.z","private_key":"k"}`)))
	must(s.AddProperty(ctx, PropertySpec{Connection: "x@y.z", Site: "sc-domain:example.com"}))
	must(s.CreateKey(ctx, KeySpec{Person: "a@example.com", Name: "k", Scopes: []string{"a"}, Hash: sha256.Sum256([]byte("x")), Workspace: "main"}, func(string) int { return 1 }))
	k, err := s.KeyByHash(ctx, sha256.Sum256([]byte("x")))
	must(k, err)
	found, err := s.FindProperties(ctx, k.PersonID, k.Workspace.ID, "example.com")
	must(found, err)
	page, total, err := s.ReachableProperties(ctx, k.PersonID, "", false, 10, 0)
	must(page, err)
	if len(found) != 1 || total != 1 || len(page) != 1 {
		t.Fatal(found, page, total)
	}
	_, _, err = s.Credentials(ctx, found[0].Connection.ID)
	must(nil, err)
	must(s.AddAnnotation(ctx, "example.com", Annotation{Title: "x"}))
	must(s.Annotations(ctx, found[0].ID, nil, nil))
}
