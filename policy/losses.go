package policy

import (
	"log/slog"
	"sync"
	"time"
)

// overLimits are the limits that can be exceeded, as labels of sara_overadmitted_total and in the order of restore.lua.
var overLimits = [4]string{"hour", "day", "calls", "minute"}

const (
	lossLogInterval = time.Minute      // between two lines about losses
	lossRecent      = 15 * time.Minute // for how long a loss is part of the replica's state
)

// A lossLog logs, at most once a minute, what Redis has lost and what was admitted beyond limits, and remembers the latest.
type lossLog struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex // guards everything below
	lost     int        // requests and calls that were restored since the last line
	over     [4]int     // admitted beyond the limits since then, as in overLimits
	logged   time.Time  // zero: never, as the following
	lastLoss time.Time  // by the clock of this process
	lastOver time.Time
}

// add records what one call of restore.lua found.
func (l *lossLog) add(lost int, over [4]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.lost += lost; lost > 0 {
		l.lastLoss = now
	}
	for i, n := range over {
		if l.over[i] += n; n > 0 {
			l.lastOver = now
		}
	}
}

// flush logs what has been added since the last line, unless that was less than a minute ago.
func (l *lossLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.lost == 0 && l.over == [4]int{} || now.Sub(l.logged) < lossLogInterval {
		return
	}
	if l.lost > 0 {
		l.log.Warn("budgets: Redis had lost counts; this replica has restored its own", slog.Int("count", l.lost))
	}
	if l.over != [4]int{} {
		attributes := make([]any, len(overLimits))
		for i, limit := range overLimits {
			attributes[i] = slog.Int(limit, l.over[i])
		}
		l.log.Warn("budgets: more was admitted than the limits allow", attributes...)
	}
	l.lost, l.over, l.logged = 0, [4]int{}, now
}

// notes describe the losses of the last quarter of an hour; none if there were none.
func (l *lossLog) notes() (notes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, event := range []struct {
		at   time.Time
		text string
	}{
		{l.lastLoss, "Redis lost counts, which this replica restored"},
		{l.lastOver, "requests were admitted beyond a limit"},
	} {
		age := now.Sub(event.at)
		switch {
		case age >= lossRecent:
		case age < time.Minute:
			notes = append(notes, event.text+" less than a minute ago")
		default:
			notes = append(notes, event.text+" "+counted(int(age.Minutes()), "minute")+" ago")
		}
	}
	return notes
}
