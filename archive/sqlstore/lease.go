package sqlstore

import (
	"context"
	"fmt"
	"time"
)

const (
	// A holder may take its own lease again, which is what it does when it does not know whether it got it.
	acquireLease = "INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE" +
		" SET holder = excluded.holder, expires_at = excluded.expires_at" +
		" WHERE leases.holder = excluded.holder OR leases.expires_at <= $4"
	renewLease   = "UPDATE leases SET expires_at = $1 WHERE name = $2 AND holder = $3 AND expires_at > $4"
	releaseLease = "DELETE FROM leases WHERE name = $1 AND holder = $2"
)

// AcquireLease takes the lease of that name for a time, if nobody holds it, and reports whether the holder has it now. A
// lease that has run out by Config.Now is free, and so the clocks of those who contend have to agree within a fraction of
// ttl. Of any number of contenders one gets it.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	now := s.clock()
	n, err := s.changeLease(ctx, acquireLease, name, holder, now.Add(ttl).UnixMilli(), now.UnixMilli())
	if err != nil {
		return false, fmt.Errorf("acquire the lease %q: %w", name, err)
	}
	return n == 1, nil
}

// RenewLease lets the holder keep a lease for another ttl from now, and reports whether it held it still. A lease that has
// run out is lost, even if nobody has taken it since.
func (s *Store) RenewLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	now := s.clock()
	n, err := s.changeLease(ctx, renewLease, now.Add(ttl).UnixMilli(), name, holder, now.UnixMilli())
	if err != nil {
		return false, fmt.Errorf("renew the lease %q: %w", name, err)
	}
	return n == 1, nil
}

// ReleaseLease gives a lease back before it has run out. One that is somebody else's stays as it is.
func (s *Store) ReleaseLease(ctx context.Context, name, holder string) error {
	if _, err := s.changeLease(ctx, releaseLease, name, holder); err != nil {
		return fmt.Errorf("release the lease %q: %w", name, err)
	}
	return nil
}

func (s *Store) changeLease(ctx context.Context, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	return affected(ctx, s.db, statement, args...)
}
