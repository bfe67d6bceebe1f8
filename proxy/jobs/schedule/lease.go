package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Leases are named locks that expire, shared by all replicas.
type Leases interface {
	// AcquireLease acquires the lease for ttl unless another holder has it, and reports whether the holder has it now.
	AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// RenewLease extends the lease to ttl from now, and reports whether the holder still had it.
	RenewLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// ReleaseLease releases the lease before it expires.
	ReleaseLease(ctx context.Context, name, holder string) error
}

const (
	// LeaseTTL is how long a lease lasts after its last renewal.
	LeaseTTL = 20 * time.Second

	renewEvery   = LeaseTTL / 6
	leaseTimeout = LeaseTTL / 6 // of one renewal or release
)

// ErrLeaseLost is the cause of a context that ended because the lease could not be renewed.
var ErrLeaseLost = errors.New("the lease is lost: another replica may be at work")

// WithLease runs do while the holder has the named lease, and renews it meanwhile. acquired is false if another holder has
// it; do is not called then. If the lease is lost, the context of do is canceled with ErrLeaseLost as its cause. The error
// is that of do or of the leases.
//
// A lease is reentrant by holder: use a distinct holder name for each concurrent run.
func WithLease(ctx context.Context, leases Leases, name, holder string, do func(ctx context.Context) error) (acquired bool, err error) {
	asked := time.Now()
	acquired, err = leases.AcquireLease(ctx, name, holder, LeaseTTL)
	if err != nil || !acquired {
		return false, err
	}
	held, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { renew(held, cancel, leases, name, holder, asked) })
	err = do(held)
	cancel(nil)
	renewing.Wait()
	releasing, stop := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
	defer stop()
	return true, errors.Join(err, leases.ReleaseLease(releasing, name, holder))
}

// renew renews the lease until ctx ends. It cancels the work when the lease is lost, and also when renewing has failed for
// half of the TTL since the last success was asked for (renewed), so the work stops before another replica can start.
func renew(ctx context.Context, cancel context.CancelCauseFunc, leases Leases, name, holder string, renewed time.Time) {
	for Sleep(ctx, renewEvery) == nil {
		began := time.Now()
		renewing, stop := context.WithTimeout(ctx, leaseTimeout)
		held, err := leases.RenewLease(renewing, name, holder, LeaseTTL)
		stop()
		switch {
		case err == nil && held:
			renewed = began
		case err == nil, time.Since(renewed) >= LeaseTTL/2:
			cancel(fmt.Errorf("hold %q: %w", name, errors.Join(ErrLeaseLost, err)))
			return
		}
	}
}
