package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// A StatusLook is what a process has counted over all accounts, connections and properties. Other processes read it, so their cost
// does not grow with these numbers.
type StatusLook struct {
	At     time.Time
	Counts []byte // JSON
}

// StatusLook returns the last saved look; false if there is none, or if the schema is too old to have one.
func (s *Store) StatusLook(ctx context.Context) (StatusLook, bool, error) {
	look, err := one(ctx, s.overview, func(row scanner, l *StatusLook) error {
		var counts string
		err := row.Scan(instant{&l.At}, &counts)
		l.Counts = []byte(counts)
		return err
	}, "SELECT looked_at, counts FROM status_look")
	if errors.Is(err, sql.ErrNoRows) || isUnknownTable(err) {
		return StatusLook{}, false, nil
	}
	if err != nil {
		return StatusLook{}, false, fmt.Errorf("read the last look at the status: %w", err)
	}
	return look, true, nil
}

// SaveStatusLook replaces the last look. Neither Edition nor Generation changes, because nothing that is served does.
func (s *Store) SaveStatusLook(ctx context.Context, look StatusLook) (err error) {
	defer wrap(&err, "save a look at the status")
	return s.execute(ctx, "INSERT INTO status_look (id, looked_at, counts) VALUES (1, $1, $2)"+
		" ON CONFLICT (id) DO UPDATE SET looked_at = excluded.looked_at, counts = excluded.counts", look.At.UnixMilli(), string(look.Counts))
}
