package sqlstore

import (
	"context"
	"fmt"
	"time"
)

// A RemovedProperty is a property whose history may still be in the archive.
type RemovedProperty struct {
	ID        string
	RemovedAt time.Time
}

// RemovedProperties lists the removed properties that have not been forgotten yet, oldest first.
func (s *Store) RemovedProperties(ctx context.Context) ([]RemovedProperty, error) {
	scan := func(row scanner) (p RemovedProperty, err error) {
		err = row.Scan(&p.ID, instant{&p.RemovedAt})
		return p, err
	}
	removed, err := all(ctx, s.overview, scan, "SELECT id, removed_at FROM removed_properties ORDER BY removed_at, id")
	if err != nil {
		return nil, fmt.Errorf("list the removed properties: %w", err)
	}
	return removed, nil
}

// ForgetRemoved forgets a removed property whose history has been deleted from the archive.
func (s *Store) ForgetRemoved(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	if _, err := affected(ctx, s.changes, "DELETE FROM removed_properties WHERE id = $1", id); err != nil {
		return fmt.Errorf("forget removed property %s: %w", id, err)
	}
	return nil
}
