package service

import (
	"context"
	"log/slog"
	"maps"
	"time"
)

const (
	keyUsesEvery   = time.Minute
	keyUsesTimeout = 5 * time.Second // of the last recording, while the service stops
)

// KeyUser knows when keys were used.
type KeyUser interface {
	// TakeKeyUses returns the hours in which keys were last used, by id, that were not taken before.
	TakeKeyUses() map[string]time.Time
}

// KeyUseStore records when keys were used.
type KeyUseStore interface {
	RecordKeyUses(ctx context.Context, uses map[string]time.Time) error
}

// RecordKeyUses records the use of keys once a minute, until ctx ends, and then once more. What the database does not take is kept for the
// next time, the last hour of each key.
func RecordKeyUses(ctx context.Context, keys KeyUser, store KeyUseStore, log *slog.Logger) {
	tick := time.NewTicker(keyUsesEvery)
	defer tick.Stop()
	r := keyUseRecorder{keys: keys, store: store, log: log, left: map[string]time.Time{}}
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyUsesTimeout)
			defer cancel()
			r.record(last)
			return
		case <-tick.C:
			r.record(ctx)
		}
	}
}

type keyUseRecorder struct {
	keys   KeyUser
	store  KeyUseStore
	log    *slog.Logger
	left   map[string]time.Time // not recorded yet
	failed bool                 // the last recording, which was logged
}

func (r *keyUseRecorder) record(ctx context.Context) {
	maps.Copy(r.left, r.keys.TakeKeyUses())
	if len(r.left) == 0 {
		return
	}
	err := r.store.RecordKeyUses(ctx, r.left)
	switch {
	case err == nil:
		clear(r.left)
	case !r.failed:
		r.log.WarnContext(ctx, "the last use of keys cannot be recorded: it is kept for later", slog.Any("error", err))
	}
	r.failed = err != nil
}
