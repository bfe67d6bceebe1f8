package sqlstore

import (
	"context"
	"time"
)

// A RemovedProperty is a property whose history may still be in the archive.
type RemovedProperty struct {
	ID        string
	RemovedAt time.Time
}

// RemovedProperties lists the removed properties that have not been forgotten yet, oldest first.
func (s *Store) RemovedProperties(ctx context.Context) (_ []RemovedProperty, err error) {
	defer wrap(&err, "list the removed properties")
	scan := func(row scanner, p *RemovedProperty) error { return row.Scan(&p.ID, instant{&p.RemovedAt}) }
	return all(ctx, s.overview, scan, "SELECT id, removed_at FROM removed_properties ORDER BY removed_at, id")
}

// ForgetRemoved forgets a removed property whose history has been deleted from the archive.
func (s *Store) ForgetRemoved(ctx context.Context, id string) (err error) {
	defer wrap(&err, "forget removed property %s", id)
	return s.execute(ctx, "DELETE FROM removed_properties WHERE id = $1", id)
}
