package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sara/policy/keyring"
)

// sealingBatch is how many credentials one query reads, and how many one transaction of Reseal writes at most. It bounds the memory, and
// how long other writers wait.
const sealingBatch = 200

// Sealing shows which secret keys the stored credentials need, and which credentials none of the Store's keys opens.
type Sealing struct {
	Keys     []SecretKeyUse // those of the Store, the current one first, then the missing ones
	Unopened Unopened       // all connections, for a Store without a secret key
}

// SecretKeyUse is how many connections a secret key has sealed.
type SecretKeyUse struct {
	ID          keyring.ID // zero: unknown
	Role        KeyRole
	Connections int
}

// IsKnown reports whether credentials name the key; damaged ones, and those from before names were stored, do not.
func (u SecretKeyUse) IsKnown() bool { return u.ID != keyring.ID{} }

// KeyRole is the role of a secret key in a Store.
type KeyRole string

// The roles of keys.
const (
	CurrentKey  KeyRole = "current"  // seals and opens
	PreviousKey KeyRole = "previous" // opens
	MissingKey  KeyRole = "missing"  // is not set, and needed
)

// Unopened are the connections whose credentials no secret key opens.
type Unopened struct {
	First   []UnopenedConnection // by id
	Total   int
	Healthy int // those of the total not known to fail
}

// UnopenedConnection is a connection, and why its credentials do not open.
type UnopenedConnection struct {
	Connection
	Err error // ErrNoSecretKey, or a *WrongKeyError
}

// Checked reports whether there is a secret key. Without one, all credentials count as unopened.
func (s Sealing) Checked() bool { return len(s.Keys) > 0 && s.Keys[0].Role == CurrentKey }

// Sealing tries to open the credentials of all connections. It names the first most connections whose credentials do not open.
func (s *Store) Sealing(ctx context.Context, most int) (Sealing, error) {
	sealing, uses := Sealing{}, make(map[keyring.ID]int)
	err := s.eachCredentials(ctx, func(batch []credentials) error {
		for _, c := range batch {
			_, by, err := s.unseal(c.ID, c.sealed)
			uses[by]++
			if err == nil {
				continue
			}
			sealing.Unopened.Total++
			if c.Healthy {
				sealing.Unopened.Healthy++
			}
			if len(sealing.Unopened.First) < most {
				sealing.Unopened.First = append(sealing.Unopened.First, UnopenedConnection{c.Connection, err})
			}
		}
		return nil
	})
	if err != nil {
		return Sealing{}, err
	}
	sealing.Keys = s.keyUses(uses)
	return sealing, nil
}

func (s *Store) keyUses(uses map[keyring.ID]int) []SecretKeyUse {
	list := []SecretKeyUse{}
	for i, id := range s.secretKeys() {
		role := PreviousKey
		if i == 0 {
			role = CurrentKey
		}
		list = append(list, SecretKeyUse{id, role, uses[id]})
		delete(uses, id)
	}
	known := len(list)
	for id, n := range uses {
		list = append(list, SecretKeyUse{id, MissingKey, n})
	}
	slices.SortFunc(list[known:], func(a, b SecretKeyUse) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	return list
}

// secretKeys returns the IDs of the keys, the current one first; none without a secret key.
func (s *Store) secretKeys() []keyring.ID {
	if s.ring == nil {
		return nil
	}
	return s.ring.IDs()
}

// credentials are a connection with its sealed credentials.
type credentials struct {
	Connection
	sealed []byte
}

// eachCredentials calls do with the sealed credentials of all connections, in batches by id.
func (s *Store) eachCredentials(ctx context.Context, do func([]credentials) error) error {
	scan := func(row scanner, c *credentials) error {
		return scanConnection(joined{row, []any{&c.sealed}}, &c.Connection)
	}
	after := ""
	for {
		batch, err := all(ctx, s.overview, scan, "SELECT "+connectionColumns+", c.credentials"+fromConnections+
			"WHERE c.id > $1 ORDER BY c.id LIMIT $2", after, sealingBatch)
		if err != nil {
			return fmt.Errorf("read the credentials of the connections: %w", err)
		}
		if err := do(batch); err != nil {
			return err
		}
		if len(batch) < sealingBatch {
			return nil
		}
		after = batch[len(batch)-1].ID
	}
}
