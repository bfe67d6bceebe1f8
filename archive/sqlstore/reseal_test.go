package sqlstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"sara/policy/keyring"
)

// sealUnnamed seals as the first version did, without naming the key.
func sealUnnamed(t *testing.T, key []byte, connectionID string, plain []byte) []byte {
	t.Helper()
	aead := value(cipher.NewGCM(value(aes.NewCipher(key))(t)))(t)
	sealed := make([]byte, 1+aead.NonceSize())
	sealed[0] = keyring.UnnamedVersion
	_, _ = rand.Read(sealed[1:])
	return aead.Seal(sealed, sealed[1:], plain, []byte(connectionID))
}

func (f *fixture) setSealed(connectionID string, sealed []byte) {
	f.t.Helper()
	if _, err := f.pools.jobs.ExecContext(f.ctx, "UPDATE connections SET credentials = $1 WHERE id = $2", sealed, connectionID); err != nil {
		f.t.Fatal(err)
	}
}

func testReseal(t *testing.T, f *fixture) {
	_, named := f.acme()
	unnamed, damaged := f.connection("main", "unnamed"), f.connection("main", "damaged")
	f.setSealed(unnamed.ID, sealUnnamed(t, testKey, unnamed.ID, authorizedUserJSON))
	f.setSealed(damaged.ID, []byte("damaged"))
	both, after := f.open(newRing(t, otherKey, testKey)), f.open(newRing(t, otherKey))
	previous, current := newRing(t, testKey).Current(), newRing(t, otherKey).Current()
	before := value(f.Edition(f.ctx))(t)

	equal(t, value(both.Sealing(f.ctx, 0))(t).Keys, []SecretKeyUse{{current, CurrentKey, 0}, {previous, PreviousKey, 2}, {keyring.ID{}, MissingKey, 1}})
	for _, step := range []int{2, 0} { // the second run has nothing to do
		resealed := 0
		wantNil(t, both.Reseal(f.ctx, func(n int) { resealed = n }))
		equal(t, resealed, step)
	}
	equal(t, value(both.Sealing(f.ctx, 0))(t).Keys, []SecretKeyUse{{current, CurrentKey, 2}, {previous, PreviousKey, 0}, {keyring.ID{}, MissingKey, 1}})
	for id, want := range map[string][]byte{named.ID: serviceAccountJSON, unnamed.ID: authorizedUserJSON} {
		credentials, err := after.Credentials(f.ctx, id)
		wantNil(t, err)
		equal(t, string(credentials), string(want))
		equal(t, value(after.Connection(f.ctx, id))(t).Revision, 1) // servers keep their tokens
	}
	wrong := (*WrongKeyError)(nil)
	if _, err := f.Credentials(f.ctx, named.ID); !errors.As(err, &wrong) || wrong.Key != current {
		t.Errorf("the key before opens them still, or does not name the key: %v", err)
	}
	equal(t, value(f.Edition(f.ctx))(t), before)
	entries := value(f.AuditLog(f.ctx, AuditFilter{Limit: 1}))(t)
	equal(t, []string{entries[0].Action, entries[0].Subject, string(entries[0].Details)},
		[]string{"connection.reseal", current.String(), `{"connections":2}`})
	if err := f.open(nil).Reseal(f.ctx, nil); !errors.Is(err, ErrNoSecretKey) {
		t.Errorf("without a key: %v", err)
	}
}

// A run resumes where an earlier one was interrupted, and keeps what others have written between its read and its write.
func testResealInterrupted(t *testing.T, f *fixture) {
	f.acme()
	for n := range sealingBatch + 50 {
		f.connection("main", fmt.Sprint("c", n))
	}
	both := f.open(newRing(t, otherKey, testKey))
	batch := []credentials(nil)
	wantNil(t, both.eachCredentials(f.ctx, func(b []credentials) error {
		if batch == nil {
			batch = b
		}
		return nil
	}))
	equal(t, len(batch), sealingBatch)
	replaced := value(f.ReplaceCredentials(f.ctx, batch[7].ID, authorizedUserJSON))(t)
	equal(t, value(both.resealBatch(f.ctx, batch))(t), sealingBatch-1) // then it is interrupted
	got, err := both.Credentials(f.ctx, replaced.ID)
	wantNil(t, err)
	equal(t, string(got), string(authorizedUserJSON))
	equal(t, value(both.Connection(f.ctx, replaced.ID))(t).Revision, 2)

	var steps []int
	wantNil(t, both.Reseal(f.ctx, func(n int) { steps = append(steps, n) }))
	equal(t, steps, []int{1, 52}) // 250 connections, and acme's
	keys := value(both.Sealing(f.ctx, 0))(t).Keys
	equal(t, []int{keys[0].Connections, keys[1].Connections}, []int{sealingBatch + 51, 0})
}
