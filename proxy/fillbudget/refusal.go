package fillbudget

import "time"

// Why a claim is refused, the values of a label of the metrics.
const (
	reasonQueue    = "queue"    // too many are already waiting
	reasonPatience = "patience" // it waited too long
	reasonMemory   = "memory"   // the heap is above its watermark
)

// retryAfter is when a refused fill may be retried. A fill takes a few seconds at most.
const retryAfter = 5 * time.Second

// RefusedError is a claim that was refused. Nothing was spent on its fill.
type RefusedError struct {
	Reason     string        // queue, patience or memory
	RetryAfter time.Duration // when to try again
}

func (e *RefusedError) Error() string { return "no memory for another fill: " + e.Reason }

func (b *Budget) refuse(reason string) error {
	b.metrics.refused[reason].Inc()
	return &RefusedError{Reason: reason, RetryAfter: retryAfter}
}
