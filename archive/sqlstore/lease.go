package sqlstore

import (
	"context"
	"time"
)

const (
	// A lease is reentrant by holder: after a failed call, the holder can acquire it again without knowing whether it has it.
	acquireLease = "INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE" +
		" SET holder = excluded.holder, expires_at = excluded.expires_at" +
		" WHERE leases.holder = excluded.holder OR leases.expires_at <= $4 OR leases.expires_at > $5"
	renewLease   = "UPDATE leases SET expires_at = $1 WHERE name = $2 AND holder = $3 AND expires_at > $4"
	releaseLease = "DELETE FROM leases WHERE name = $1 AND holder = $2"
)

// endless is longer than any lease lasts. One that expires later than this was acquired by a clock that was ahead, and would block
// others until then if its holder died.
const endless = 24 * time.Hour

// AcquireLease acquires the named lease for ttl if it is free or expired, and reports whether the holder has it now. Only one of
// any number of contenders gets it. Expiry is decided by Config.Now, so the clocks of contenders must agree within a fraction of
// ttl. A lease is reentrant by holder: use a distinct holder name for each concurrent run.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (_ bool, err error) {
	defer wrap(&err, "acquire the lease %q", name)
	now := s.clock()
	n, err := s.changeLease(ctx, acquireLease, name, holder, now.Add(ttl).UnixMilli(), now.UnixMilli(), now.Add(endless).UnixMilli())
	return n == 1, err
}

// RenewLease extends a lease to ttl from now, and reports whether the holder still had it. An expired lease is lost, even if no other
// holder has acquired it.
func (s *Store) RenewLease(ctx context.Context, name, holder string, ttl time.Duration) (_ bool, err error) {
	defer wrap(&err, "renew the lease %q", name)
	now := s.clock()
	n, err := s.changeLease(ctx, renewLease, now.Add(ttl).UnixMilli(), name, holder, now.UnixMilli())
	return n == 1, err
}

// ReleaseLease releases a lease before it expires. It does not affect the lease of another holder.
func (s *Store) ReleaseLease(ctx context.Context, name, holder string) (err error) {
	defer wrap(&err, "release the lease %q", name)
	_, err = s.changeLease(ctx, releaseLease, name, holder)
	return err
}

func (s *Store) changeLease(ctx context.Context, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	return affected(ctx, s.leases, statement, args...)
}
