package sqlstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A key has one successor, however many processes rotate it at the same time: two would be one more than the plan allows.
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

// A key that is rotated while it is revoked leaves no successor that works: the person who revokes it does not know of one.
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
