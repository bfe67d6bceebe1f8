package upstream

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// lockedStore is a Connections that another process has locked.
type lockedStore struct{ Connections }

func (lockedStore) SetConnectionHealth(ctx context.Context, _ string, _ int, _ string) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func (lockedStore) SetPropertyAccess(ctx context.Context, _, _ string) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func TestLockedStoreDelaysAnAnswerByTwoSecondsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{store: lockedStore{}, log: slog.New(slog.DiscardHandler), now: time.Now}
		began := time.Now()
		r.readable(t.Context(), Target{PropertyID: "property-1", AccessNote: "no access", ConnectionID: "connection-1"})
		if took := time.Since(began); took != 2*recordTimeout {
			t.Errorf("the answer waited %v", took)
		}
	})
}

// What an answer showed is recorded even if its caller has left.
func TestHealthIsRecordedWithoutTheCaller(t *testing.T) {
	s := new(store)
	r := &recorder{store: endingStore{s}, log: slog.New(slog.DiscardHandler), now: time.Now}
	left, leave := context.WithCancel(t.Context())
	leave()
	r.connectionFailure(left, target(), &Error{Kind: Revoked})
	if got := s.take(); len(got) != 1 {
		t.Errorf("recorded %q", got)
	}
}

// endingStore records nothing once the context has ended, as a database does.
type endingStore struct{ *store }

func (s endingStore) SetConnectionHealth(ctx context.Context, id string, revision int, note string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return s.store.SetConnectionHealth(ctx, id, revision, note)
}
