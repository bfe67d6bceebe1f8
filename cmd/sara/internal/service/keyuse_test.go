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

// interrupted is a store whose recording runs until the service stops, and that is away from then on.
type interrupted struct{ *keyUsesStub }

func (s interrupted) RecordKeyUses(ctx context.Context, uses map[string]time.Time) error {
	if ctx.Done() != nil && s.recorded["begun"].IsZero() {
		s.recorded["begun"] = time.Now()
		<-ctx.Done()
		return ctx.Err()
	}
	return s.keyUsesStub.RecordKeyUses(ctx, uses)
}

// A stop in the middle of a recording is no failure of the database: the uses are recorded once more. What fails then is lost, which the log
// says, whatever failed before.
func TestKeyUsesThatTheLastRecordingLosesAreLogged(t *testing.T) {
	t.Parallel()
	for _, away := range []error{nil, errors.New("away")} {
		synctest.Test(t, func(t *testing.T) {
			s := &keyUsesStub{uses: map[string]time.Time{"a": time.Now()}, recorded: map[string]time.Time{}, err: away}
			var log strings.Builder
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				RecordKeyUses(ctx, s, interrupted{s}, slog.New(slog.NewTextHandler(&log, nil)))
			}()
			<-time.After(keyUsesEvery)
			synctest.Wait()
			cancel()
			<-ended
			if away == nil && (log.String() != "" || s.recorded["a"].IsZero()) || away != nil && (strings.Count(log.String(), "WARN") != 1 ||
				!strings.Contains(log.String(), "the last use of keys is lost") || !strings.Contains(log.String(), "away")) {
				t.Errorf("%v: recorded %v, and the log is %q", away, s.recorded, log.String())
			}
		})
	}
}

// Each outage is logged once, also one after another.
func TestEachOutageOfTheUseOfKeysIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := &keyUsesStub{recorded: map[string]time.Time{}}
	var log strings.Builder
	r := keyUseRecorder{keys: s, store: s, log: slog.New(slog.NewTextHandler(&log, nil)), left: map[string]time.Time{}}
	for i, err := range []error{errors.New("away"), errors.New("away"), nil, nil, errors.New("away"), errors.New("away")} {
		s.uses, s.err = map[string]time.Time{"a": time.Unix(int64(i), 0)}, err
		r.recordOrKeep(t.Context())
	}
	if strings.Count(log.String(), "WARN") != 2 {
		t.Errorf("the log of two outages is %q", log.String())
	}
}
