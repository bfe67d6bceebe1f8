package schedule

import (
	"fmt"
	"time"

	"sara/proxy/upstream"
)

// Progress observes a run. Its methods are called concurrently.
type Progress interface {
	Planned(steps map[string]int)                            // an estimate for all properties, by ID, before the first is started; Started corrects it
	Started(t upstream.Target, steps int)                    // the number of days or URLs to do; called again after a pause
	Advanced(t upstream.Target, step string)                 // step names the day or URL that is done
	Noticed(t upstream.Target, notice fmt.Stringer)          // a notice of a type that the job defines
	Paused(t upstream.Target, until time.Time, reason error) // the next attempt starts at until
	Ended(t upstream.Target, err error)                      // nil: all that can be done now is done
}

// NoProgress ignores what it observes.
type NoProgress struct{}

var _ Progress = NoProgress{}

// Planned implements Progress.
func (NoProgress) Planned(map[string]int) {}

// Started implements Progress.
func (NoProgress) Started(upstream.Target, int) {}

// Advanced implements Progress.
func (NoProgress) Advanced(upstream.Target, string) {}

// Noticed implements Progress.
func (NoProgress) Noticed(upstream.Target, fmt.Stringer) {}

// Paused implements Progress.
func (NoProgress) Paused(upstream.Target, time.Time, error) {}

// Ended implements Progress.
func (NoProgress) Ended(upstream.Target, error) {}
