package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/policy"
	"sara/policy/keyring"
)

func testConnections(t *testing.T, f *fixture) {
	a := f.account("acme", "pro")
	w := f.workspace("acme", "main")
	c := value(f.AddConnection(f.ctx, "main", "google", serviceAccountJSON))(t)
	equal(t, c, Connection{
		Connection: policy.Connection{ID: c.ID, Revision: 1, Healthy: true},
		AccountID:  a.ID, AccountName: "acme", WorkspaceID: w.ID, WorkspaceName: "main",
		Name: "google", Kind: ServiceAccount, Identity: "robot@project.iam.gserviceaccount.com", CreatedAt: f.time,
	})
	_, err := f.AddConnection(f.ctx, "main", "google", serviceAccountJSON)
	refused[*ExistsError](t, err)

	first := value(f.AddConnection(f.ctx, "main", "", authorizedUserJSON))(t)
	second := value(f.AddConnection(f.ctx, "main", "", authorizedUserJSON))(t)
	equal(t, []string{first.Kind, first.Name, second.Name}, []string{AuthorizedUser, "12.apps.example", "12.apps.example-2"})
	equal(t, value(f.Connections(f.ctx))(t), []Connection{c, first, second})

	credentials, err := f.Credentials(f.ctx, first.ID)
	wantNil(t, err)
	equal(t, string(credentials), string(authorizedUserJSON))
	equal(t, first.Revision, 1)
	_, err = f.Credentials(f.ctx, "nothing")
	refused[*NotFoundError](t, err)

	// Sealing is randomized, and bound to the connection's ID.
	one, two := value(f.seal("a", credentials))(t), value(f.seal("a", credentials))(t)
	if string(one) == string(two) {
		t.Error("two seals of one text are equal")
	}
	if _, _, err := f.unseal("b", one); !errors.Is(err, ErrWrongSecretKey) {
		t.Errorf("credentials of another connection: %v", err)
	}
}

func testIncompleteCredentials(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	f.workspace("acme", "main")
	for _, credentials := range []string{
		``, `null`, `[]`, `hunter2`, `{"type":"hunter2"}`,
		`{"type":"service_account","private_key":"hunter2"}`,
		`{"type":"service_account","private_key":"hunter2","client_email":7}`,
		`{"type":"authorized_user","client_id":"a","client_secret":"hunter2"}`,
		`{"type":"authorized_user","refresh_token":"hunter2","client_secret":"hunter2"}`,
	} {
		_, err := f.AddConnection(f.ctx, "main", "google", []byte(credentials))
		refused[*InputError](t, err)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q repeats a secret", err)
		}
	}
	equal(t, value(f.Connections(f.ctx))(t), []Connection{})
}

func testReplaceCredentials(t *testing.T, f *fixture) {
	_, c := f.acme()
	p := f.property("google", "sc-domain:example.com")
	value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, "revoked"))(t)
	value(f.SetPropertyAccess(f.ctx, p.ID, "no access"))(t)

	replaced := value(f.ReplaceCredentials(f.ctx, "google", authorizedUserJSON))(t)
	c.Kind, c.Identity, c.Revision = AuthorizedUser, "12.apps.example", 2
	equal(t, replaced, c)
	credentials, err := f.Credentials(f.ctx, c.ID)
	wantNil(t, err)
	equal(t, string(credentials), string(authorizedUserJSON))
	p.Connection = policy.Connection{ID: c.ID, Revision: 2, Healthy: true}
	equal(t, value(f.Property(f.ctx, p.ID))(t), p)

	// A report about the old credentials does not affect the new ones.
	equal(t, value(f.SetConnectionHealth(f.ctx, c.ID, 1, "revoked"))(t), false)
	equal(t, value(f.Property(f.ctx, p.ID))(t), p)

	_, err = f.ReplaceCredentials(f.ctx, "nothing", authorizedUserJSON)
	refused[*NotFoundError](t, err)
}

func testSecretKeys(t *testing.T, f *fixture) {
	_, c := f.acme()
	without := f.open(nil)
	_, err := without.AddConnection(f.ctx, "main", "second", serviceAccountJSON)
	if !errors.Is(err, ErrNoSecretKey) || !strings.Contains(err.Error(), "SARA_SECRET_KEY") {
		t.Errorf("adding without a key: %v", err)
	}
	if _, err := without.Credentials(f.ctx, c.ID); !errors.Is(err, ErrNoSecretKey) || !strings.Contains(err.Error(), "not to a new one") ||
		strings.Contains(err.Error(), "openssl") {
		t.Errorf("reading without a key: %v", err)
	}
	other := f.open(newRing(t, otherKey))
	if _, err := other.Credentials(f.ctx, c.ID); !errors.Is(err, ErrWrongSecretKey) {
		t.Errorf("reading with another key: %v", err)
	}
	second := f.connection("main", "second")
	current, foreign := newRing(t, testKey).Current(), newRing(t, otherKey).Current()
	equal(t, value(f.Sealing(f.ctx, 1))(t), Sealing{Keys: []SecretKeyUse{{current, CurrentKey, 2}}})
	value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, "revoked"))(t)
	c.Healthy, c.Note = false, "revoked"
	wrong := &WrongKeyError{current}
	unopened := Sealing{
		Keys:     []SecretKeyUse{{foreign, CurrentKey, 0}, {current, MissingKey, 2}},
		Unopened: Unopened{First: []UnopenedConnection{{c, wrong}, {second, wrong}}, Total: 2, Healthy: 1},
	}
	equal(t, value(other.Sealing(f.ctx, 5))(t), unopened)
	unopened.Unopened.First = unopened.Unopened.First[:1]
	equal(t, value(other.Sealing(f.ctx, 1))(t), unopened)
	// Without a key, the credentials still name the key that they need.
	unopened.Keys, unopened.Unopened.First[0].Err = unopened.Keys[1:], noKeyToOpen(current)
	equal(t, value(without.Sealing(f.ctx, 1))(t), unopened)
	equal(t, unopened.Checked(), false)
	if _, err := f.pools.jobs.ExecContext(f.ctx, "UPDATE connections SET credentials = $1", []byte{2, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Credentials(f.ctx, c.ID); !errors.Is(err, ErrWrongSecretKey) {
		t.Errorf("reading what is damaged: %v", err)
	}
	equal(t, value(f.Sealing(f.ctx, 0))(t).Keys, []SecretKeyUse{{current, CurrentKey, 0}, {keyring.ID{}, MissingKey, 2}})
}

func testConnectionHealth(t *testing.T, f *fixture) {
	_, c := f.acme()
	p := f.property("google", "sc-domain:example.com")
	equal(t, value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, ""))(t), false)
	generation, edition := f.Generation(), value(f.Edition(f.ctx))(t)

	var transitions atomic.Int64
	var replicas sync.WaitGroup
	for i := range 4 {
		replicas.Go(func() {
			changed, err := f.SetConnectionHealth(f.ctx, c.ID, c.Revision, fmt.Sprintf("revoked, says %d", i))
			if err != nil {
				t.Error(err)
			}
			if changed {
				transitions.Add(1)
			}
		})
	}
	replicas.Wait()
	equal(t, transitions.Load(), int64(1))
	equal(t, f.Generation(), generation+1)
	equal(t, value(f.Edition(f.ctx))(t), edition+1)
	state := value(f.Property(f.ctx, p.ID))(t).Connection
	if state.Healthy || !strings.HasPrefix(state.Note, "revoked, says ") {
		t.Errorf("the connection is %+v", state)
	}

	since := f.time
	f.time = f.time.Add(time.Hour)
	equal(t, value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, "still"))(t), false)
	found := value(f.Outages(f.ctx, 20))(t)
	outages := found.First
	if len(outages) != 1 || outages[0].ID != c.ID || outages[0].Note != state.Note || outages[0].Since == nil || !outages[0].Since.Equal(since) {
		t.Errorf("not healthy are %+v, since %v", outages, since)
	}
	equal(t, found.Connections, 1)
	equal(t, value(f.Outages(f.ctx, 0))(t), Outages{Connections: 1, Total: 1})

	equal(t, value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, ""))(t), true)
	equal(t, value(f.Connection(f.ctx, c.ID))(t), c)
	equal(t, value(f.Outages(f.ctx, 20))(t), Outages{Connections: 1, First: []Outage{}})
	_, err := f.SetConnectionHealth(f.ctx, "nothing", 1, "")
	refused[*NotFoundError](t, err)
	// The upstream's message may be any text.
	equal(t, value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, "\x00\xff"+strings.Repeat("é", 3000)))(t), true)
}

func testPropertyAccess(t *testing.T, f *fixture) {
	f.acme()
	p := f.property("google", "sc-domain:example.com")
	for _, step := range []struct {
		note    string
		changed bool
		kept    string
	}{{"", false, ""}, {"forbidden", true, "forbidden"}, {"forbidden again", false, "forbidden"}, {"", true, ""}} {
		equal(t, value(f.SetPropertyAccess(f.ctx, p.ID, step.note))(t), step.changed)
		equal(t, value(f.Property(f.ctx, p.ID))(t).AccessNote, step.kept)
	}
	_, err := f.SetPropertyAccess(f.ctx, "nothing", "")
	refused[*NotFoundError](t, err)
}

// A name derived from a long one is truncated between characters.
func TestADerivedNameIsText(t *testing.T) {
	taken := 0
	name, err := firstFree("connection", "", "a"+strings.Repeat("ж", 150)+"@example.com", 150, func(string) (int64, error) {
		taken++
		return int64(taken - 1), nil
	})
	if want := "a" + strings.Repeat("ж", 147) + "-2"; err != nil || name != want {
		t.Errorf("%q, want %q, %v", name, want, err)
	}
}

// A removal and a change of the same connection lock its rows in one order: they wait for each other in turn, and neither fails.
func testRemoveWhileCredentialsChange(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	f.workspace("acme", "main")
	stores := []*Store{f.open(newRing(t, testKey)), f.open(newRing(t, testKey))}
	for _, name := range numbered("google %d", 4) {
		c := value(f.AddConnection(f.ctx, "acme/main", name, serviceAccountJSON))(t)
		for _, site := range numbered("https://%d.example/", 10) {
			value(f.AddProperty(f.ctx, PropertySpec{Connection: c.ID, Site: site}))(t)
		}
		var changes sync.WaitGroup
		for _, s := range stores {
			changes.Go(func() {
				for range 5 {
					if _, err := s.ReplaceCredentials(f.ctx, c.ID, serviceAccountJSON); err != nil && !errors.As(err, new(*NotFoundError)) {
						t.Error(err)
					}
				}
			})
		}
		value(f.Remove(f.ctx, KindConnection, c.ID))(t)
		changes.Wait()
		_, err := f.ReplaceCredentials(f.ctx, c.ID, serviceAccountJSON)
		refused[*NotFoundError](t, err)
	}
}
