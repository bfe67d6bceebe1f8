package sqlstore

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A key has one successor, however many processes rotate it concurrently: two would be one more than the plan allows.
func testRotateKeyRace(t *testing.T, f *fixture) {
	p, _ := f.acme()
	const rounds, racers = 5, 4
	stores := []*Store{f.Store, f.open(nil)}
	for _, name := range numbered("key %d", rounds) {
		key := f.key(p.Email, name)
		var rotations, conflicts atomic.Int64
		var rotators sync.WaitGroup
		for i, text := range numbered(name+", successor %d", racers) {
			rotators.Go(func() {
				_, _, err := stores[i%len(stores)].RotateKey(f.ctx, key.ID, keySpec("", text).Hash, time.Hour, 0)
				if conflict := (*ConflictError)(nil); errors.As(err, &conflict) {
					conflicts.Add(1)
				} else if err != nil {
					t.Error(err)
				} else {
					rotations.Add(1)
				}
			})
		}
		rotators.Wait()
		equal(t, rotations.Load(), int64(1))
		equal(t, conflicts.Load(), int64(racers-1))
	}
	equal(t, len(value(f.Keys(f.ctx, p.Email))(t)), 2*rounds)
}

// A key that is rotated while it is being revoked leaves no working successor: the person who revokes it does not know of one.
func testRevokeWhileRotating(t *testing.T, f *fixture) {
	p, _ := f.acme()
	other := f.open(nil)
	for _, text := range numbered("key %d", 20) {
		key := f.key(p.Email, text)
		var rotator sync.WaitGroup
		rotator.Go(func() {
			_, _, err := other.RotateKey(f.ctx, key.ID, keySpec("", text+", rotated").Hash, time.Hour, 0)
			if conflict := (*ConflictError)(nil); err != nil && !errors.As(err, &conflict) {
				t.Error(err)
			}
		})
		value(f.RevokeKeys(f.ctx, p.Email))(t)
		rotator.Wait()
		for _, k := range value(f.Keys(f.ctx, p.Email))(t) {
			if k.RevokedAt == nil || k.RevokedAt.After(f.time) {
				t.Fatalf("%s: key %s ends at %v", text, k.ID, k.RevokedAt)
			}
		}
	}
}

// Keys can change while their account, or their person, is removed: they take turns, and no key outlives its owner.
func testRemoveWhileKeysChange(t *testing.T, f *fixture) {
	f.account("globex", "pro")
	f.workspace("globex", "main")
	stores := []*Store{f.open(nil), f.open(nil)}
	for i, name := range numbered("acme %d", 4) {
		f.account(name, "pro")
		p := f.person(name, strings.ReplaceAll(name, " ", "")+"@acme.example", "globex/main")
		var keys []APIKey
		for _, text := range numbered(name+" key %d", 5) {
			keys = append(keys, f.key(p.Email, text))
		}
		var changes sync.WaitGroup
		change := func(do func(s *Store) error) {
			for _, s := range stores {
				changes.Go(func() {
					if err := do(s); err != nil && !errors.As(err, new(*NotFoundError)) && !errors.As(err, new(*ConflictError)) {
						t.Error(err)
					}
				})
			}
		}
		change(func(s *Store) error { return only(s.RevokeKeys(f.ctx, p.Email)) })
		change(func(s *Store) error {
			return rotated(s.RotateKey(f.ctx, keys[0].ID, keySpec("", name+" rotated").Hash, time.Hour, 0))
		})
		change(func(s *Store) error { return only(s.RevokeKey(f.ctx, keys[4].ID)) })
		if i%2 == 0 {
			value(f.Remove(f.ctx, KindAccount, name))(t)
		} else {
			value(f.Remove(f.ctx, KindPerson, p.Email))(t)
		}
		changes.Wait()
		_, err := f.Keys(f.ctx, p.ID)
		refused[*NotFoundError](t, err)
	}
}

// The uses of keys are recorded while the keys are revoked and removed: all lock keys in one order, and none fails.
func testKeysEndWhileTheirUseIsRecorded(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	f.workspace("acme", "main")
	recorder := f.open(nil)
	for round, name := range numbered("ann%d@acme.example", 4) {
		p := f.person("acme", name, "main")
		uses := make(map[string]time.Time)
		for i, text := range numbered(name+" key %d", 30) {
			uses[f.key(p.Email, text).ID] = f.time.Add(time.Duration(round*100-i) * time.Hour)
		}
		var recording sync.WaitGroup
		recording.Go(func() {
			for n := range 10 {
				later := make(map[string]time.Time, len(uses))
				for id, at := range uses {
					later[id] = at.Add(time.Duration(n) * time.Hour)
				}
				if err := recorder.RecordKeyUses(f.ctx, later); err != nil {
					t.Error(err)
				}
			}
		})
		revoked, err := f.RevokeKeys(f.ctx, p.Email)
		recording.Wait()
		wantNil(t, err)
		equal(t, len(revoked), len(uses))
	}
}
