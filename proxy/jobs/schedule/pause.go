package schedule

import (
	"context"
	"time"
)

// Pause waits for d, or until ctx ends, which is an error: its cause.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// busyPause is how often it is looked whether customers still need the machine.
const busyPause = 250 * time.Millisecond

// GiveWay waits while the machine is busy with customers, for limit at most: a job has its day, too. It fails only when ctx
// has ended.
func GiveWay(ctx context.Context, busy func() bool, limit time.Duration) error {
	for waited := time.Duration(0); waited < limit && busy(); waited += busyPause {
		if err := Pause(ctx, busyPause); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
