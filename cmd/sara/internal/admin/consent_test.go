package admin_test

import (
	"path/filepath"
	"testing"

	"sara/archive/sqlstore"
	"sara/archive/sqlstore/sqlitetest"
	"sara/cmd/sara/internal/admin"
	"sara/policy/keyring"
	"sara/proxy/upstream"
)

// While a person picks sites, or another command imports, a site may be added by someone else: it is kept, and the others are added.
func TestSitesThatAreAddedMeanwhileAreKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sara.db")
	sqlitetest.Create(t, file)
	keys, err := keyring.New(make([]byte, keyring.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite:" + file, Keyring: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = store.AddAccount(t.Context(), "Acme", "own", nil)
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := store.AddWorkspace(t.Context(), "Acme", "Main")
	if err != nil {
		t.Fatal(err)
	}
	a := admin.Admin{Store: store}
	grant := upstream.Grant{Account: "ann@acme.example", Credentials: []byte(
		`{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "account": "ann@acme.example"}`)}
	explore := func() *admin.Consented {
		t.Helper()
		consented, err := a.Explore(t.Context(), workspace, "", grant)
		if err != nil {
			t.Fatal(err)
		}
		return consented
	}
	connection, _, err := a.StoreConsent(t.Context(), explore(), nil)
	if err != nil {
		t.Fatal(err)
	}
	consented := explore()
	for _, site := range []string{"sc-domain:a.example", "sc-domain:b.example"} {
		if _, err := store.AddProperty(t.Context(), sqlstore.PropertySpec{Connection: connection.ID, Site: site}); err != nil {
			t.Fatal(err)
		}
	}
	_, results, err := a.StoreConsent(t.Context(), consented,
		[]upstream.Site{{URL: "sc-domain:a.example"}, {URL: "sc-domain:b.example"}, {URL: "sc-domain:c.example"}})
	if err != nil || len(results) != 3 {
		t.Fatalf("%v, %v", results, err)
	}
	for i, added := range []bool{false, false, true} {
		if r := results[i]; r.Added != added || r.Property == nil || r.Property.Site != r.Site.URL {
			t.Errorf("%s: %v, added: %t, want %t", r.Site.URL, r.Property, r.Added, added)
		}
	}
}
