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
			if err := r.record(last); err != nil {
				log.WarnContext(last, "the last use of keys is lost: it cannot be recorded", slog.Any("error", err))
			}
			return
		case <-tick.C:
			r.recordOrKeep(ctx)
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

// recordOrKeep logs the first of several failures. That the context ends is none.
func (r *keyUseRecorder) recordOrKeep(ctx context.Context) {
	err := r.record(ctx)
	if err != nil && !r.failed && ctx.Err() == nil {
		r.log.WarnContext(ctx, "the last use of keys cannot be recorded: it is kept for later", slog.Any("error", err))
	}
	r.failed = err != nil
}

func (r *keyUseRecorder) record(ctx context.Context) error {
	maps.Copy(r.left, r.keys.TakeKeyUses())
	if len(r.left) == 0 {
		return nil
	}
	if err := r.store.RecordKeyUses(ctx, r.left); err != nil {
		return err
	}
	clear(r.left)
	return nil
}
