package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/keyring"
	"sara/policy/redisconn"
)

// The Redis keys of the snapshot, and of the turn to replace it.
const (
	snapshotKey     = "sara:directory"
	snapshotTurnKey = "sara:directory:turn"
)

const (
	// SnapshotInterval is the time between the ticks of Snapshots.Keep, and so how long it can take until a change that was not
	// published voids the snapshot.
	SnapshotInterval = time.Second

	// After a change a gate knows little. So the first replacement of a snapshot follows after shortestTurn, and each next one after
	// twice the time, up to longestTurn.
	shortestTurn = time.Second
	longestTurn  = time.Minute

	// A turn ends early enough for the tick with which the next one begins: ticks, and the clock of Redis, are not exact.
	turnSlack = SnapshotInterval / 2

	// snapshotTimeout bounds the time from the reading of an edition until its snapshot is in Redis, and all of a restore.
	snapshotTimeout = 5 * time.Second
)

// The reasons why there is no snapshot to start from, apart from those of its format.
var (
	errNoKeys          = errors.New("without a secret key, no snapshot can be opened")
	errSnapshotRedis   = errors.New("the snapshot cannot be read from Redis")
	errSnapshotSeal    = errors.New("the snapshot in Redis was sealed with another secret key, or altered")
	errNoSnapshot      = errors.New("there is no snapshot in Redis")
	errSnapshotOld     = errors.New("the snapshot in Redis is older than five minutes, or from the future")
	errSnapshotChanged = errors.New("the directory has changed since the snapshot in Redis: a key in it may have been revoked")
	errSnapshotEmpty   = errors.New("the snapshot in Redis holds no key: none was used since the last change")
)

// SnapshotConfig configures Snapshots. Every field is required but the keys.
type SnapshotConfig struct {
	Client   redisconn.Client // see redisconn.Open; the caller closes it
	Keyring  *keyring.Keyring // nil: there are no snapshots
	Now      func() time.Time
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Snapshots keep what gates know about the directory, sealed in Redis, for a replica that starts while the directory is away: it goes
// on with the answers of the others, for as long as these may: five minutes after the directory gave them.
//
// A snapshot is used only if no change was published since, and is replaced within two seconds after a change that was not. Redis is
// not trusted: what was not sealed with the same secret key is refused, and so is what is older than the edition that this replica has
// read last. It can only withhold a snapshot, or show to a replica that has read none an older one with its change, up to five minutes.
//
// The methods are safe for concurrent use.
type Snapshots struct {
	config SnapshotConfig
	sealer *keyring.Sealer // nil without a secret key
	keys   prometheus.Gauge

	// Of the goroutine of Keep:
	change  string        // the last one that was announced; empty: none
	edition uint64        // of the directory when it was read last
	kept    snapshotHead  // that this replica saw last, by change and edition
	turn    time.Duration // until the next replacement
	nextAt  time.Time
	failing bool // the last snapshot could not be written

	mu      sync.Mutex // guards the following fields
	from    time.Time  // when the directory gave the answers that the gate was restored with; zero: it has answered itself since
	problem error      // why there was no snapshot when one was wanted last
}

// NewSnapshots returns snapshots in Redis, which may still be down.
func NewSnapshots(c SnapshotConfig) (*Snapshots, error) {
	s := &Snapshots{config: c, keys: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sara_snapshot_keys",
		Help: "Keys in the snapshot that this replica wrote last, for replicas that start without the database; 0: it has written none.",
	})}
	if c.Keyring != nil {
		s.sealer = c.Keyring.Sealer(snapshotPurpose)
	}
	return s, c.Registry.Register(s.keys)
}

// Keep writes what the gate knows for others while the directory answers, and restores the gate when it knows nothing and the
// directory is away: at once and on every tick, until ctx ends. Ticks come every SnapshotInterval.
func (s *Snapshots) Keep(ctx context.Context, gate *Gate, tick <-chan time.Time) {
	for {
		s.check(ctx, gate)
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// Restored returns when the directory gave the answers that the gate was restored with; zero if the directory has answered since,
// or the gate was not restored.
func (s *Snapshots) Restored() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from
}

// Problem returns why the gate could not be restored when that was tried last; nil if it was, or the directory has answered since.
func (s *Snapshots) Problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// check reads what may change in this order: what is read later is not older than what was read before.
func (s *Snapshots) check(ctx context.Context, gate *Gate) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	knownChanges := gate.knownChanges()
	change, changeErr := lastChange(ctx, s.config.Client)
	edition, readAt, err := gate.readEdition(ctx)
	if err != nil {
		s.checkAway(ctx, gate, change)
		return
	}
	s.settle(time.Time{}, nil)
	if changeErr == nil && change == "" {
		change, changeErr = beginChanges(ctx, s.config.Client)
	}
	s.edition = edition
	if changeErr != nil {
		return // the change that was seen last stays known: if the directory fails too, a later one shows
	}
	s.change = change
	if change != "" && s.sealer != nil {
		s.keep(ctx, gate, snapshotHead{change, edition, readAt}, knownChanges)
	}
}

// checkAway restores the gate if it knows nothing that it may use. The change is the last published one, empty if it is not known.
func (s *Snapshots) checkAway(ctx context.Context, gate *Gate, change string) {
	if change != "" && s.change != "" && change != s.change {
		gate.Invalidate() // the message may have been missed
		s.change = change
	}
	if gate.knowsEdition() || ctx.Err() != nil {
		return
	}
	restored, err := s.restore(ctx, gate)
	if err != nil {
		s.settle(time.Time{}, err)
		return
	}
	s.change = restored.Change
	s.settle(restored.ReadAt, nil)
	s.config.Log.WarnContext(ctx, "the database does not answer: this replica serves a snapshot from the others", slog.Time("read_at", restored.ReadAt),
		slog.Int("answers", len(restored.answers)))
}

// settle records the result of a check, and logs a problem once.
func (s *Snapshots) settle(from time.Time, problem error) {
	s.mu.Lock()
	before := s.problem
	s.from, s.problem = from, problem
	s.mu.Unlock()
	if problem != nil && (before == nil || before.Error() != problem.Error()) {
		s.config.Log.Warn("the database does not answer, and there is no snapshot to serve", slog.Any("error", problem))
	}
}

// keep replaces the snapshot at once after a change, and else when it is this replica's turn.
func (s *Snapshots) keep(ctx context.Context, gate *Gate, head snapshotHead, knownChanges uint64) {
	changed := head.Change != s.kept.Change || head.Edition != s.kept.Edition
	if !changed && head.ReadAt.Before(s.nextAt) {
		return
	}
	if changed {
		s.turn = shortestTurn
	}
	turn := s.turn - turnSlack
	s.kept, s.nextAt, s.turn = head, head.ReadAt.Add(turn), min(2*s.turn, longestTurn)
	mine, err := s.config.Client.SetNX(ctx, snapshotTurnKey, "", turn).Result()
	if err == nil && (mine || changed) {
		err = s.write(ctx, &snapshot{head, gate.known(version{knownChanges, head.Edition})})
	}
	if err != nil && !s.failing {
		s.config.Log.WarnContext(ctx, "no snapshot is kept for replicas that start without the database", slog.Any("error", err))
	}
	s.failing = err != nil
}

// write replaces the snapshot in Redis, with what another replica added to it of the same change and edition.
func (s *Snapshots) write(ctx context.Context, of *snapshot) error {
	if stored, err := s.read(ctx); err == nil && stored.Change == of.Change && stored.Edition == of.Edition {
		of.merge(stored.answers)
	}
	compressed, keys, err := of.encode()
	if err != nil {
		return err
	}
	if err := s.config.Client.Set(ctx, snapshotKey, s.sealer.AppendSeal(nil, compressed, nil), staleTTL).Err(); err != nil {
		return fmt.Errorf("write the snapshot to Redis: %w", err)
	}
	s.keys.Set(float64(keys))
	return nil
}

// read returns the snapshot in Redis, without the answers that are too old to be used.
func (s *Snapshots) read(ctx context.Context) (*snapshot, error) {
	if s.sealer == nil {
		return nil, errNoKeys
	}
	longest := int64(maxSnapshotBytes + keyring.Overhead)
	sealed, err := s.config.Client.GetRange(ctx, snapshotKey, 0, longest).Bytes()
	if err != nil {
		return nil, errSnapshotRedis // without the error, which differs each time: the budgets log it
	}
	if len(sealed) == 0 {
		return nil, errNoSnapshot
	}
	compressed, err := s.sealer.AppendOpen(nil, sealed, nil)
	if err != nil {
		return nil, errSnapshotSeal
	}
	stored, err := decodeSnapshot(compressed)
	if err != nil {
		return nil, err
	}
	now := s.config.Now()
	stored.dropUnless(func(a *knownAnswer) bool { return within(now, a.LoadedAt, staleTTL) })
	return stored, nil
}

// restore restores the gate with the snapshot in Redis. The last change is read after it, so that none in between is missed.
func (s *Snapshots) restore(ctx context.Context, gate *Gate) (*snapshot, error) {
	knownChanges := gate.knownChanges() // before the snapshot: of a change meanwhile, the gate hears by itself
	stored, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	change, err := lastChange(ctx, s.config.Client)
	switch {
	case err != nil:
		return nil, errSnapshotRedis
	case change != stored.Change, stored.Edition < s.edition:
		return nil, errSnapshotChanged
	case !within(s.config.Now(), stored.ReadAt, staleTTL):
		return nil, errSnapshotOld
	case !stored.hasKeys():
		return nil, errSnapshotEmpty
	}
	gate.restore(stored, knownChanges)
	return stored, nil
}
