package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Leases are what processes take turns by.
type Leases interface {
	// AcquireLease takes the lease for a time unless another holds it, and reports whether the holder has it.
	AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// RenewLease lets the holder keep it for another ttl, and reports whether it held it still.
	RenewLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// ReleaseLease gives it back.
	ReleaseLease(ctx context.Context, name, holder string) error
}

// LeaseTime is how long a lease lasts that is not renewed any more.
const LeaseTime = 20 * time.Second

// ErrLeaseLost is why the context ends of a holder that cannot show any more that it is its turn.
var ErrLeaseLost = errors.New("the lease is lost: another replica may be at work")

// Hold runs do while the holder has the lease of that name, and not at all when another has it; free reports which. The
// context of do ends with ErrLeaseLost as its cause when the lease is lost. The error is do's, or that of the leases.
//
// Two holders of one name are one holder: whoever may be at work twice at once needs two names.
func Hold(ctx context.Context, leases Leases, name, holder string, do func(ctx context.Context) error) (free bool, err error) {
	got, err := leases.AcquireLease(ctx, name, holder, LeaseTime)
	if err != nil || !got {
		return false, err
	}
	held, lose := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { renew(held, lose, leases, name, holder) })
	err = do(held)
	lose(nil)
	renewing.Wait()
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), LeaseTime/6)
	defer cancel()
	return true, errors.Join(err, leases.ReleaseLease(releasing, name, holder))
}

// renew keeps the lease until ctx ends, and ends it by lose when it cannot.
func renew(ctx context.Context, lose context.CancelCauseFunc, leases Leases, name, holder string) {
	renewed := time.Now()
	for Pause(ctx, LeaseTime/6) == nil {
		asked := time.Now()
		bounded, cancel := context.WithTimeout(ctx, LeaseTime/6)
		held, err := leases.RenewLease(bounded, name, holder, LeaseTime)
		cancel()
		switch {
		case err == nil && held:
			renewed = asked
		case err == nil, time.Since(renewed) >= LeaseTime/2:
			lose(fmt.Errorf("hold %q: %w", name, errors.Join(ErrLeaseLost, err)))
			return
		}
	}
}
