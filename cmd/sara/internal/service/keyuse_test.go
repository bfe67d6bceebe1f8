package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// keyUsesStub hands out uses, and records them unless it fails.
type keyUsesStub struct {
	uses, recorded map[string]time.Time
	err            error
}

func (s *keyUsesStub) TakeKeyUses() map[string]time.Time {
	taken := s.uses
	s.uses = nil
	return taken
}

func (s *keyUsesStub) RecordKeyUses(_ context.Context, uses map[string]time.Time) error {
	if s.err == nil {
		maps.Copy(s.recorded, uses)
	}
	return s.err
}

func TestKeyUsesAreKeptWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hour := time.Now().Truncate(time.Hour)
		s := &keyUsesStub{uses: map[string]time.Time{"a": hour}, recorded: map[string]time.Time{}, err: errors.New("away")}
		var log strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			RecordKeyUses(ctx, s, s, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		<-time.After(3 * keyUsesEvery)
		synctest.Wait()
		s.uses = map[string]time.Time{"b": hour}
		if len(s.recorded) != 0 || strings.Count(log.String(), "WARN") != 1 {
			t.Errorf("while it is away: %v\n%s", s.recorded, log.String())
		}
		s.err = nil
		cancel()
		<-ended
		if want := (map[string]time.Time{"a": hour, "b": hour}); !maps.Equal(s.recorded, want) {
			t.Errorf("recorded %v, want %v", s.recorded, want)
		}
	})
}
