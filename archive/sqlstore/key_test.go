package sqlstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

func testKeyForAdmission(t *testing.T, f *fixture) {
	p, c := f.acme()
	f.key(p.Email, "plain")
	expires := f.time.Add(24 * time.Hour)
	spec := keySpec(p.ID, "scoped")
	spec.Scopes, spec.Workspace, spec.ExpiresAt = []string{"properties:read", "indexing:read"}, "main", &expires
	key := value(f.CreateKey(f.ctx, spec, unlimited))(t)
	until := translate.NewDate(2027, 1, 31)
	account := value(f.SetPlan(f.ctx, "acme", "agency", &until))(t)

	want := policy.Key{ID: key.ID, Scopes: policy.PropertiesRead | policy.IndexingRead,
		Workspace: &policy.Workspace{ID: c.WorkspaceID, Name: "main"}, ExpiresAt: expires, PersonID: p.ID, AccountID: account.ID,
		PlanName: "agency", PlanEnd: time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)}
	equal(t, value(f.findKey(spec.Hash))(t), want)
	value(f.RevokeKey(f.ctx, key.ID))(t)
	want.RevokedAt = f.time
	equal(t, value(f.findKey(spec.Hash))(t), want)

	plain := value(f.findKey(keySpec("", "plain").Hash))(t)
	if plain.Workspace != nil || !plain.ExpiresAt.IsZero() || !plain.RevokedAt.IsZero() {
		t.Errorf("a plain key is %+v", plain)
	}
	if _, err := f.findKey(sha256.Sum256([]byte("unknown"))); !errors.Is(err, policy.ErrUnknown) {
		t.Errorf("an unknown key: %v", err)
	}
	spec = keySpec(p.ID, "of a newer version")
	spec.Scopes = []string{"weather:read"}
	value(f.CreateKey(f.ctx, spec, unlimited))(t)
	if k := value(f.findKey(spec.Hash))(t); k.Scopes != 0 {
		t.Errorf("a key with an unknown scope has %v", k.Scopes.Names())
	}
	testKeysForAdmission(t, f, p)
	testKeyHashes(t, f, keySpec(p.ID, "plain").Hash, spec.Hash)
}

// One query finds any number of keys among unknown hashes.
func testKeysForAdmission(t *testing.T, f *fixture, p Person) {
	var hashes []policy.Hash
	want := map[policy.Hash]string{}
	for i := range 256 {
		spec := keySpec(p.ID, fmt.Sprint("batch ", i))
		hashes = append(hashes, spec.Hash)
		if i%64 == 3 {
			want[spec.Hash] = value(f.CreateKey(f.ctx, spec, unlimited))(t).ID
		}
	}
	for _, n := range []int{0, 1, 3, 4, 100, 256} {
		found := value(f.FindKeys(f.ctx, hashes[:n]))(t)
		for i, hash := range hashes[:n] {
			if got, ok := found[hash]; ok != (want[hash] != "") || got.ID != want[hash] {
				t.Errorf("hash %d of %d: %+v, %t", i, n, got, ok)
			}
		}
	}
}

// The hashes are those of all keys, including revoked ones.
func testKeyHashes(t *testing.T, f *fixture, some ...policy.Hash) {
	total := value(one(f.ctx, f.overview, scalar[int], "SELECT count(*) FROM api_keys"))(t)
	hashes := value(f.KeyHashes(f.ctx, total+1))(t)
	distinct := map[policy.Hash]bool{}
	for _, hash := range hashes {
		distinct[hash] = true
	}
	if len(hashes) != total || len(distinct) != total {
		t.Errorf("%d hashes of %d keys, %d of them distinct", len(hashes), total, len(distinct))
	}
	for _, hash := range append(some, keySpec("", "scoped").Hash) {
		if !distinct[hash] {
			t.Errorf("the hash %x is missing", hash)
		}
	}
	if hashes := value(f.KeyHashes(f.ctx, 2))(t); len(hashes) != 2 {
		t.Errorf("%d hashes, want 2", len(hashes))
	}
}

// findKey returns the key with one hash.
func (f *fixture) findKey(hash policy.Hash) (policy.Key, error) {
	keys, err := f.FindKeys(f.ctx, []policy.Hash{hash})
	key, ok := keys[hash]
	if err == nil && !ok {
		err = policy.ErrUnknown
	}
	return key, err
}

func testKeyLimit(t *testing.T, f *fixture) {
	f.account("another", "trial") // with a limit and keys of its own
	for i := range 5 {
		f.key(f.person("another", fmt.Sprintf("p%d@another.example", i)).ID, fmt.Sprint("of another ", i))
	}
	p, _ := f.acme()
	other := f.person("acme", "bob@acme.example") // the limit is the account's, not the person's
	limit := func(plan string) int { return map[string]int{"pro": 2}[plan] }
	create := func(person, text string, expires *time.Time) (APIKey, error) {
		spec := keySpec(person, text)
		spec.ExpiresAt = expires
		return f.CreateKey(f.ctx, spec, limit)
	}
	soon := f.time.Add(time.Minute)
	first := value(create(p.ID, "first", nil))(t)
	value(create(other.ID, "second", &soon))(t)
	_, err := create(p.ID, "third", nil)
	equal(t, refusal[*KeyLimitError](t, err), &KeyLimitError{Account: "acme", Plan: "pro", Limit: 2})
	equal(t, (&KeyLimitError{"acme", "solo", 1}).Error(),
		`account "acme" is on plan "solo", which allows 1 working API key: revoke one or change the plan`)

	f.time = soon // an expired key makes room
	value(create(p.ID, "third", nil))(t)
	_, err = create(p.ID, "fourth", nil)
	refused[*KeyLimitError](t, err)
	value(f.RevokeKey(f.ctx, first.ID))(t) // and so does a revoked one
	value(create(p.ID, "fourth", nil))(t)

	value(f.SetPlan(f.ctx, "acme", "trial", nil))(t)
	_, err = create(p.ID, "fifth", nil)
	equal(t, refusal[*KeyLimitError](t, err).Limit, 0)
}

func testKeyLimitRace(t *testing.T, f *fixture) {
	p, _ := f.acme()
	const limit, racers = 3, 12
	var admitted, refusals atomic.Int64
	var creators sync.WaitGroup
	stores := []*Store{f.Store, f.open(nil)}
	for i, text := range numbered("key %d", racers) {
		creators.Go(func() {
			_, err := stores[i%len(stores)].CreateKey(f.ctx, keySpec(p.ID, text), func(string) int { return limit })
			if full := (*KeyLimitError)(nil); errors.As(err, &full) {
				refusals.Add(1)
			} else if err != nil {
				t.Error(err)
			} else {
				admitted.Add(1)
			}
		})
	}
	creators.Wait()
	equal(t, admitted.Load(), int64(limit))
	equal(t, refusals.Load(), int64(racers-limit))
	equal(t, len(value(f.Keys(f.ctx, p.Email))(t)), limit)
}

func testKeys(t *testing.T, f *fixture) {
	p, _ := f.acme()
	f.workspace("acme", "second")
	key := f.key("Ann@acme.example", "first")
	equal(t, key, APIKey{ID: key.ID, PersonID: p.ID, Name: "first", Scopes: []string{"performance:read"}, CreatedAt: f.time})
	for _, change := range []func(*KeySpec){
		func(s *KeySpec) { s.Name = "" },
		func(s *KeySpec) { s.Name = strings.Repeat("é", 81) },
		func(s *KeySpec) { s.Scopes = nil },
		func(s *KeySpec) { s.Scopes = []string{""} },
		func(s *KeySpec) { s.Scopes = []string{"a b"} },
		func(s *KeySpec) { s.Scopes = []string{"a", "a"} },
	} {
		spec := keySpec(p.ID, "bad")
		change(&spec)
		_, err := f.CreateKey(f.ctx, spec, unlimited)
		refused[*InputError](t, err)
	}
	spec := keySpec(p.ID, "elsewhere")
	spec.Workspace = "second" // there, but not the person's
	_, err := f.CreateKey(f.ctx, spec, unlimited)
	equal(t, refusal[*NotFoundError](t, err).Kind, "workspace of ann@acme.example")
	_, err = f.CreateKey(f.ctx, keySpec("unknown@acme.example", "x"), unlimited)
	refused[*NotFoundError](t, err)
	_, err = f.CreateKey(f.ctx, keySpec(p.ID, "first"), unlimited)
	refused[*ExistsError](t, err)

	revoked := f.time
	key.RevokedAt = &revoked
	equal(t, value(f.RevokeKey(f.ctx, key.ID))(t), key)
	f.time = f.time.Add(time.Hour) // revoking again does not move the time
	equal(t, value(f.RevokeKey(f.ctx, key.ID))(t), key)
	equal(t, value(f.Keys(f.ctx, p.Email))(t), []APIKey{key})
	_, err = f.RevokeKey(f.ctx, "nothing")
	refused[*NotFoundError](t, err)
	_, err = f.Keys(f.ctx, "unknown@acme.example")
	refused[*NotFoundError](t, err)
}

func testRotateKey(t *testing.T, f *fixture) {
	p, _ := f.acme()
	expires := f.time.Add(30 * 24 * time.Hour)
	spec := keySpec(p.ID, "first")
	spec.Scopes, spec.Workspace, spec.ExpiresAt = []string{"properties:read", "config:read"}, "main", &expires
	spec.From = policy.StoredAddresses("192.0.2.0/24 2001:db8::/32")
	one := func(string) int { return 1 }
	first := value(f.CreateKey(f.ctx, spec, one))(t)
	f.time = f.time.Add(24 * time.Hour)
	next, old, err := f.RotateKey(f.ctx, first.ID, keySpec("", "second").Hash, time.Hour, 0)
	wantNil(t, err)
	ends, expires := f.time.Add(time.Hour), f.time.Add(30*24*time.Hour)
	first.RevokedAt = &ends
	equal(t, old, first)
	equal(t, next, APIKey{ID: next.ID, PersonID: p.ID, Name: "first", Scopes: first.Scopes, Workspace: first.Workspace, From: spec.From,
		CreatedAt: f.time, ExpiresAt: &expires})
	equal(t, value(f.Keys(f.ctx, p.ID))(t), []APIKey{old, next})
	equal(t, value(f.findKey(spec.Hash))(t).RevokedAt, ends)
	found := value(f.findKey(keySpec("", "second").Hash))(t)
	equal(t, found.RevokedAt, time.Time{})
	equal(t, found.From, spec.From)

	recorded := string(value(f.AuditLog(f.ctx, AuditFilter{Limit: 1}))(t)[0].Details)
	if !strings.Contains(recorded, `"replaced_until":"`+ends.Format(time.RFC3339)+`","replaces":"`+first.ID+`"`) {
		t.Errorf("recorded as %s", recorded)
	}

	_, err = f.CreateKey(f.ctx, keySpec(p.ID, "another"), one) // the new key counts
	refused[*KeyLimitError](t, err)
	for _, c := range []struct {
		at      time.Time
		id, why string
	}{
		{f.time, first.ID, "it has already been rotated, and ends at " + ends.Format(time.RFC3339)},
		{ends, first.ID, "it is revoked"},
		{expires, next.ID, "it has expired"},
	} {
		f.time = c.at
		_, _, err = f.RotateKey(f.ctx, c.id, keySpec("", "third").Hash, time.Hour, 0)
		equal(t, refusal[*ConflictError](t, err), &ConflictError{"key", c.why + ": create another one"})
	}
	_, _, err = f.RotateKey(f.ctx, "nothing", keySpec("", "third").Hash, time.Hour, 0)
	refused[*NotFoundError](t, err)
	equal(t, f.audited(AuditFilter{Limit: 1}), []string{"key.rotate"})

	// The longest lifetime that is allowed today also bounds the successors of keys that were created before.
	for days, want := range map[int]int{0: 30, 29: 29, 30: 30, 31: 30} {
		spec = keySpec(p.ID, fmt.Sprint("at most ", days))
		spec.ExpiresAt = new(f.time.AddDate(0, 0, 30))
		key := value(f.CreateKey(f.ctx, spec, unlimited))(t)
		next, _, err := f.RotateKey(f.ctx, key.ID, keySpec("", spec.Name+", rotated").Hash, time.Hour, days)
		wantNil(t, err)
		equal(t, *next.ExpiresAt, f.time.AddDate(0, 0, want))
	}
	next, _, err = f.RotateKey(f.ctx, f.key(p.Email, "without an end").ID, keySpec("", "with an end").Hash, time.Hour, 7)
	wantNil(t, err)
	equal(t, *next.ExpiresAt, f.time.AddDate(0, 0, 7))
}

func testRestrictKey(t *testing.T, f *fixture) {
	p, _ := f.acme()
	spec := keySpec(p.ID, "first")
	spec.From = policy.StoredAddresses("192.0.2.0/24")
	key := value(f.CreateKey(f.ctx, spec, unlimited))(t)
	equal(t, key.From, spec.From)
	recorded := func(from string) {
		t.Helper()
		if last := value(f.AuditLog(f.ctx, AuditFilter{Limit: 1}))(t)[0].Details; !strings.Contains(string(last), `"from":`+from) {
			t.Errorf("recorded as %s, want from %s", last, from)
		}
	}
	recorded(`["192.0.2.0/24"]`)
	for _, networks := range []string{"192.0.2.0/24 2001:db8::/32", "198.51.100.7/32", ""} {
		edition := value(f.Edition(f.ctx))(t)
		key.From = policy.StoredAddresses(networks)
		for range 2 { // the second time changes nothing
			equal(t, value(f.RestrictKey(f.ctx, key.ID, key.From))(t), key)
		}
		equal(t, value(f.Keys(f.ctx, p.ID))(t), []APIKey{key})
		equal(t, value(f.findKey(spec.Hash))(t).From, key.From)
		if after := value(f.Edition(f.ctx))(t); after <= edition {
			t.Errorf("the edition is %d after %d: other replicas do not notice", after, edition)
		}
	}
	equal(t, f.audited(AuditFilter{Limit: 4}), []string{"key.update", "key.update", "key.update", "key.create"})
	recorded("[]")
	_, err := f.RestrictKey(f.ctx, "nothing", nil)
	refused[*NotFoundError](t, err)

	// A value written by another program does not make a key usable from more addresses.
	value(f.pools.reports.ExecContext(f.ctx, "UPDATE api_keys SET allowed_from = 'everything' WHERE id = $1", key.ID))(t)
	if from := value(f.findKey(spec.Hash))(t).From; from.Contain("192.0.2.7") {
		t.Errorf("a damaged restriction is read as %q", from)
	}
}

func testRevokeKeys(t *testing.T, f *fixture) {
	p, _ := f.acme()
	f.person("acme", "bob@acme.example", "main")
	first, _, third := f.key(p.Email, "first"), f.key("bob@acme.example", "second"), f.key(p.Email, "third")
	_, _, err := f.RotateKey(f.ctx, third.ID, keySpec("", "fourth").Hash, time.Hour, 0)
	wantNil(t, err)
	value(f.RevokeKey(f.ctx, first.ID))(t)
	revoked := value(f.RevokeKeys(f.ctx, "ANN@acme.example"))(t)
	equal(t, len(revoked), 2) // the third, in its overlap, and the fourth
	for _, k := range value(f.Keys(f.ctx, p.ID))(t) {
		if k.RevokedAt == nil || !k.RevokedAt.Equal(f.time) {
			t.Errorf("key %s ends at %v", k.ID, k.RevokedAt)
		}
	}
	if k := value(f.Keys(f.ctx, "bob@acme.example"))(t)[0]; k.RevokedAt != nil {
		t.Errorf("another person's key ends at %v", k.RevokedAt)
	}
	equal(t, len(value(f.RevokeKeys(f.ctx, p.Email))(t)), 0)
	equal(t, f.audited(AuditFilter{Limit: 4}), []string{"key.revoke", "key.revoke", "key.revoke", "key.rotate"})
	_, err = f.RevokeKeys(f.ctx, "unknown@acme.example")
	refused[*NotFoundError](t, err)
}

func testKeyUses(t *testing.T, f *fixture) {
	p, _ := f.acme()
	first, second := f.key(p.Email, "first"), f.key(p.Email, "second")
	hour := f.time.Truncate(time.Hour)
	edition := value(f.Edition(f.ctx))(t)
	wantNil(t, f.RecordKeyUses(f.ctx, nil))
	wantNil(t, f.RecordKeyUses(f.ctx, map[string]time.Time{first.ID: hour, second.ID: hour.Add(time.Hour), "removed": hour}))
	wantNil(t, f.RecordKeyUses(f.ctx, map[string]time.Time{first.ID: hour.Add(2 * time.Hour), second.ID: hour})) // another process was later
	var last []time.Time
	for _, k := range value(f.Keys(f.ctx, p.Email))(t) {
		last = append(last, *k.LastUsed)
	}
	equal(t, last, []time.Time{hour.Add(2 * time.Hour), hour.Add(time.Hour)})
	equal(t, value(f.Edition(f.ctx))(t), edition)
}
