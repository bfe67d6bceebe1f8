package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"sara/policy/keyring"
)

// Reseal seals with the current key everything that a previous key has sealed, or that does not name its key. What no key opens stays as
// it is. progress gets the number of connections resealed so far after every batch; a batch is one transaction.
//
// It may run while servers serve and others write: it changes no revision, and nothing that was replaced since it was read. If a run is
// interrupted, the next one resumes it.
func (s *Store) Reseal(ctx context.Context, progress func(resealed int)) error {
	if s.sealer == nil {
		return ErrNoSecretKey
	}
	resealed := 0
	return s.eachCredentials(ctx, func(batch []credentials) error {
		n, err := s.resealBatch(ctx, batch)
		if err != nil {
			return fmt.Errorf("reseal the credentials of connections: %w", err)
		}
		resealed += n
		progress(resealed)
		return nil
	})
}

func (s *Store) resealBatch(ctx context.Context, batch []credentials) (resealed int, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, c := range batch {
			if id, named := keyring.KeyOf(c.sealed); named && id == s.ring.Current() {
				continue
			}
			plain, _, err := s.unseal(c.ID, c.sealed)
			if err != nil {
				continue // Sealing reports it
			}
			sealed, err := s.seal(c.ID, plain)
			if err != nil {
				return err
			}
			n, err := affected(ctx, tx, "UPDATE connections SET credentials = $1 WHERE id = $2 AND credentials = $3", sealed, c.ID, c.sealed)
			if err != nil {
				return err
			}
			resealed += int(n)
		}
		if resealed == 0 {
			return nil
		}
		return s.record(ctx, tx, change{action: "connection.reseal", subject: s.ring.Current().String(), details: details{"connections": resealed}})
	})
	return resealed, err
}
