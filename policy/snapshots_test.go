package policy

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/policy/redistest"
)

const (
	secretOfTests = "32 bytes of a key for tests only"
	otherSecret   = "32 bytes of another key of tests"
)

// A replica is a gate with snapshots, of which check does one tick.
type snapshotReplica struct {
	*fixture
	*Snapshots
	log *logBuffer
	t   *testing.T
}

func newSnapshotReplica(t *testing.T, client redisconn.Client, c *manualClock, secrets ...string) *snapshotReplica {
	t.Helper()
	r := &snapshotReplica{fixture: newFixtureAt(t, c, c.now), log: &logBuffer{}, t: t}
	var keys *keyring.Keyring
	var err error
	if len(secrets) > 0 {
		var previous [][]byte
		for _, secret := range secrets[1:] {
			previous = append(previous, []byte(secret))
		}
		if keys, err = keyring.New([]byte(secrets[0]), previous...); err != nil {
			t.Fatal(err)
		}
	}
	r.Snapshots, err = NewSnapshots(SnapshotConfig{Client: client, Keyring: keys, Now: c.now,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *snapshotReplica) tick() { r.Snapshots.check(r.t.Context(), r.Gate) }

// A snapshotWorld is a Redis, and a replica that knows a key and a property and has written a snapshot of them.
type snapshotWorld struct {
	t      *testing.T
	clock  *manualClock
	client redisconn.Client
	writer *snapshotReplica
}

func newSnapshotWorld(t *testing.T) *snapshotWorld {
	w := &snapshotWorld{t: t, clock: clockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), client: redistest.Single(t).Client()}
	w.writer = w.replica(secretOfTests)
	w.learn(w.writer)
	w.writer.tick()
	return w
}

func (w *snapshotWorld) replica(secrets ...string) *snapshotReplica {
	return newSnapshotReplica(w.t, w.client, w.clock, secrets...)
}

// learn lets a replica look up the key and the property.
func (w *snapshotWorld) learn(r *snapshotReplica) {
	w.t.Helper()
	wantCode(w.t, "", nil)(r.admit(w.t.Context()))
	wantCode(w.t, "", nil)(r.find(w.t.Context(), "shop"))
}

// cold is a replica that starts while the directory is away.
func (w *snapshotWorld) cold(secrets ...string) *snapshotReplica {
	r := w.replica(secrets...)
	r.directory.fail(errDirectoryDown)
	r.tick()
	return r
}

// wantCold checks a cold start: restored if the problem is nil.
func (w *snapshotWorld) wantCold(r *snapshotReplica, problem error) {
	w.t.Helper()
	if got := r.Problem(); !errors.Is(got, problem) || r.KnowsKeys() != (problem == nil) || r.Restored().IsZero() != (problem != nil) {
		w.t.Errorf("problem %v, knows keys: %v, restored %v; want %v", got, r.KnowsKeys(), r.Restored(), problem)
	}
	failure := errDirectoryDown
	if problem == nil {
		failure = nil
	}
	wantCode(w.t, "", failure)(r.admit(w.t.Context()))
}

func TestColdReplicaAnswersFromTheSnapshot(t *testing.T) {
	w := newSnapshotWorld(t)
	w.clock.advance(time.Minute)
	cold := w.cold(secretOfTests)
	w.wantCold(cold, nil)
	wantCode(t, "", nil)(cold.find(t.Context(), "shop"))
	wantCode(t, "", errDirectoryDown)(cold.find(t.Context(), "other"))
	_, err := cold.request(t.Context(), "Bearer "+unknownKeyText, 0)
	wantCode(t, "", errDirectoryDown)(codeOf(err))
	if got, want := cold.Restored(), w.clock.now().Add(-time.Minute); !got.Equal(want) {
		t.Errorf("restored what was read at %v, want %v", got, want)
	}

	// It lasts for five minutes after the directory gave it, not after the start.
	w.clock.advance(4 * time.Minute)
	wantCode(t, "", nil)(cold.admit(t.Context()))
	w.clock.advance(time.Second)
	_, _ = cold.admit(t.Context()) // may share the call of the directory that the one before did not wait for
	wantCode(t, "", errDirectoryDown)(cold.admit(t.Context()))
	cold.tick()
	w.wantCold(cold, errSnapshotOld)

	cold.directory.fail(nil)
	cold.tick()
	w.learn(cold)
	if cold.Problem() != nil || !cold.Restored().IsZero() {
		t.Errorf("the directory is back: problem %v, restored %v", cold.Problem(), cold.Restored())
	}
	if lines := cold.log.lines(); len(lines) != 2 || !strings.Contains(lines[0], "answers=2") || !strings.Contains(lines[1], "older than five minutes") {
		t.Errorf("log: %q", lines)
	}
}

func TestRestoredAnswersAreReadAgainOnceTheDirectoryAnswers(t *testing.T) {
	w := newSnapshotWorld(t)
	cold := w.cold(secretOfTests)
	w.wantCold(cold, nil)
	cold.directory.fail(nil)
	cold.edit(revoke)
	w.clock.advance(time.Second)
	wantCode(t, CodeRevokedKey, nil)(cold.admit(t.Context()))
}

func TestRevokedKeyStaysRevokedInTheSnapshot(t *testing.T) {
	w := newSnapshotWorld(t)
	w.writer.edit(revoke)
	w.clock.advance(time.Second)
	wantCode(t, CodeRevokedKey, nil)(w.writer.admit(t.Context()))
	w.writer.tick()
	cold := w.cold(secretOfTests)
	wantCode(t, CodeRevokedKey, nil)(cold.admit(t.Context()))
}

// Nothing from before a change comes back, whichever way the change becomes known.
func TestChangeVoidsTheSnapshot(t *testing.T) {
	t.Run("published", func(t *testing.T) {
		w := newSnapshotWorld(t)
		w.change()
		w.wantCold(w.cold(secretOfTests), errSnapshotChanged)
	})
	t.Run("published after the start", func(t *testing.T) {
		w := newSnapshotWorld(t)
		cold := w.cold(secretOfTests)
		w.wantCold(cold, nil)
		w.change()
		cold.tick()
		w.wantCold(cold, errSnapshotChanged)
	})
	t.Run("not published", func(t *testing.T) {
		w := newSnapshotWorld(t)
		w.writer.edit(revoke)
		w.writer.tick()
		w.wantCold(w.cold(secretOfTests), errSnapshotEmpty)
	})
	t.Run("its id is lost", func(t *testing.T) {
		w := newSnapshotWorld(t)
		w.client.Del(t.Context(), changeKey)
		w.wantCold(w.cold(secretOfTests), errSnapshotChanged)
	})
}

// Who can write to Redis cannot bring back to a replica what was before a change that the replica has seen.
func TestReplayedSnapshotIsRefusedByWhoHasSeenALaterEdition(t *testing.T) {
	w := newSnapshotWorld(t)
	old := map[string]string{snapshotKey: w.client.Get(t.Context(), snapshotKey).Val(), changeKey: w.client.Get(t.Context(), changeKey).Val()}
	w.writer.edit(revoke)
	w.change()
	w.clock.advance(time.Second)
	w.writer.tick()
	w.writer.directory.fail(errDirectoryDown)
	w.change()
	w.writer.tick()
	for key, value := range old {
		w.client.Set(t.Context(), key, value, 0)
	}
	w.writer.tick()
	w.wantCold(w.writer, errSnapshotChanged)
	w.wantCold(w.cold(secretOfTests), nil) // which has seen none
}

func (w *snapshotWorld) change() {
	w.t.Helper()
	if err := PublishInvalidation(w.t.Context(), w.client); err != nil {
		w.t.Fatal(err)
	}
}

func TestSnapshotIsRefused(t *testing.T) {
	w := newSnapshotWorld(t)
	good, err := w.client.Get(t.Context(), snapshotKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	put := func(sealed []byte) {
		t.Helper()
		if err := w.client.Set(t.Context(), snapshotKey, sealed, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{1, 20, len(good) / 2, len(good) - 1} {
		altered := slices.Clone(good)
		altered[i] ^= 1
		put(altered)
		w.wantCold(w.cold(secretOfTests), errSnapshotSeal)
	}
	for sealed, problem := range map[string]error{
		string(good[:len(good)-1]): errSnapshotSeal,
		string(good) + "x":         errSnapshotSeal,
		string(good[:1]):           errSnapshotSeal,
		"\x01" + string(good[1:]):  errSnapshotSeal,
		string(good[:5]) + strings.Repeat("x", maxSnapshotBytes): errSnapshotSeal,
		"": errNoSnapshot,
	} {
		put([]byte(sealed))
		w.wantCold(w.cold(secretOfTests), problem)
	}
	put(good)
	w.wantCold(w.cold(otherSecret), errSnapshotSeal)
	w.wantCold(w.cold(), errNoKeys)
	w.wantCold(w.cold(otherSecret, secretOfTests), nil) // a replica with a new key, and the previous one
	w.clock.advance(staleTTL + time.Second)
	w.wantCold(w.cold(secretOfTests), errSnapshotOld)
	w.clock.advance(-staleTTL - 2*time.Second)
	w.wantCold(w.cold(secretOfTests), errSnapshotOld)
	w.clock.advance(time.Second)
	w.wantCold(w.cold(secretOfTests), nil)
}

func TestSnapshotOfRedisAway(t *testing.T) {
	server := redistest.Single(t)
	w := &snapshotWorld{t: t, clock: clockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), client: server.Client()}
	server.Kill()
	cold := w.cold(secretOfTests)
	w.wantCold(cold, errSnapshotRedis)
	cold.tick()
	running := w.replica(secretOfTests)
	running.tick()
	running.tick()
	if lines := slices.Concat(cold.log.lines(), running.log.lines()); len(lines) > 1 {
		t.Errorf("a check logs each time: %q", lines)
	}
	server.Start()
	w.learn(running)
	running.tick()
	cold.tick()
	w.wantCold(cold, nil)
}

// A replica that has just started adds what it knows to what others knew.
func TestReplicasMergeTheirSnapshots(t *testing.T) {
	w := newSnapshotWorld(t)
	w.replica(secretOfTests).tick()
	w.wantCold(w.cold(secretOfTests), nil)
}

// The replicas replace the snapshot by turns: soon after a change, and then each minute.
func TestTurns(t *testing.T) {
	w := newSnapshotWorld(t)
	other := w.replica(secretOfTests)
	other.tick()
	last, written := "", 0
	for range 10 * 60 {
		w.clock.advance(time.Second)
		// Redis has a clock of its own, by which a turn lasts too long here.
		w.client.Del(t.Context(), snapshotTurnKey)
		w.writer.tick()
		other.tick()
		if now := w.client.Get(t.Context(), snapshotKey).Val(); now != last {
			last, written = now, written+1
		}
	}
	const doublings, minutes = 6, 9
	if written < doublings+minutes-1 || written > doublings+minutes+1 {
		t.Errorf("%d snapshots in ten minutes, want %d", written, doublings+minutes)
	}
}

// A replica that is alone takes its next turn with the tick after it, a little early or late, while its last turn is kept in Redis for less
// long than that.
func TestTurnEndsBeforeTheNextTick(t *testing.T) {
	w := newSnapshotWorld(t) // whose first snapshot begins a turn of a second
	left := w.client.PTTL(t.Context(), snapshotTurnKey).Val()
	if left <= 0 || left > shortestTurn-SnapshotInterval/2 {
		t.Errorf("the turn lasts another %v", left)
	}
	first := w.client.Get(t.Context(), snapshotKey).Val()
	w.client.Del(t.Context(), snapshotTurnKey) // as when it has ended
	w.clock.advance(SnapshotInterval - time.Millisecond)
	w.writer.tick()
	if w.client.Get(t.Context(), snapshotKey).Val() == first {
		t.Error("the tick after a second replaces no snapshot")
	}
}

// A gate that a change reached only by its id forgets what it knew.
func TestMissedMessageInvalidatesWhileTheDirectoryIsAway(t *testing.T) {
	w := newSnapshotWorld(t)
	w.writer.directory.fail(errDirectoryDown)
	w.clock.advance(time.Second)
	w.writer.tick()
	wantCode(t, "", nil)(w.writer.admit(t.Context()))
	w.client.FlushAll(t.Context()) // nothing is known to have changed
	w.writer.tick()
	wantCode(t, "", nil)(w.writer.admit(t.Context()))
	w.change()
	w.writer.tick()
	wantCode(t, "", errDirectoryDown)(w.writer.admit(t.Context()))
}

// Redis and the directory fail one after the other: the replica still knows which change it has seen last.
func TestMessageMissedWhileRedisWasAwayInvalidatesToo(t *testing.T) {
	server := redistest.Single(t)
	w := &snapshotWorld{t: t, clock: clockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), client: server.Client()}
	replica := w.replica(secretOfTests)
	w.learn(replica)
	replica.tick()
	server.Stop()
	replica.tick()
	replica.directory.fail(errDirectoryDown)
	w.clock.advance(time.Second)
	replica.tick()
	wantCode(t, "", nil)(replica.admit(t.Context()))
	server.Start()
	replica.tick()
	wantCode(t, "", nil)(replica.admit(t.Context())) // nothing has changed
	w.change()
	replica.tick()
	wantCode(t, "", errDirectoryDown)(replica.admit(t.Context()))
}

// What a gate found to be removed is not in its snapshot, which stays whole.
func TestSnapshotOfWhatWasRemoved(t *testing.T) {
	w := newSnapshotWorld(t)
	w.writer.directory.changeElsewhere(func() { delete(w.writer.directory.properties, propertyQuery{"p1", "", "shop"}) })
	w.clock.advance(time.Second)
	wantCode(t, CodeNotFound, nil)(w.writer.find(t.Context(), "shop"))
	wantCode(t, "", nil)(w.writer.admit(t.Context()))
	w.writer.tick()
	cold := w.cold(secretOfTests)
	w.wantCold(cold, nil)
	wantCode(t, "", errDirectoryDown)(cold.find(t.Context(), "shop"))
}
