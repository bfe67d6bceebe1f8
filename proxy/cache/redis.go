package cache

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"sara/policy/breaker"
	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/proxy/redisrows"
	"sara/translate"
)

// limits are the timeouts of the Redis steps, in real time. A request does one lookUp, which finds out whether Redis
// answers, and may take one lease within the rest of its patience. Without a lease, several replicas may call the upstream.
type limits struct {
	lookUp        time.Duration
	lastLook      time.Duration // the end of a lookUp, see wait
	patience      time.Duration // of a request with an unresponsive Redis
	background    time.Duration // of steps that no request waits for
	along         time.Duration // how long a value read along is used: the fill may have waited for memory since
	held, renewal time.Duration // how long a lease lasts, and how often it is renewed
}

func limitsFor(patience time.Duration) limits {
	return limits{
		lookUp: patience * 6 / 10, lastLook: patience * 2 / 10, patience: patience, background: max(time.Second, patience),
		along: max(time.Second, patience), held: 2 * time.Second, renewal: 500 * time.Millisecond,
	}
}

// redisPause is how long no step is tried after an error.
const redisPause = time.Second

// sharedStore is what the replicas share in Redis: entries, leases and fill events.
type sharedStore struct {
	client  redisconn.Client
	rows    *redisrows.Store // writes entries
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	limits  limits
	codec   *codec
	sealer  *keyring.Sealer // of failures
	events  *fillEvents
	script  seekScript
	seeks   seeks // calls of it
	along   bool  // the server of the rows also has all other keys

	longReads chan struct{} // holds a value for each request that reads long values

	breaker   breaker.Breaker
	warnAfter atomic.Int64 // the time of the next warning about copies that cannot be decrypted, in nanoseconds since 1970
}

func newSharedStore(config *Config, now func() time.Time, m *metrics) *sharedStore {
	rows, limits := config.Rows, limitsFor(cmp.Or(config.RedisPatience, defaultPatience))
	s := &sharedStore{
		client: rows.Client(), rows: rows, log: config.Log, now: now, metrics: m, limits: limits,
		codec: newCodec(maxPayload, config.Slots, config.Keyring), sealer: config.Keyring.Sealer(failuresPurpose), events: subscribe(rows.Client()),
		script:    seekScript{redis.NewScript(seekLua).Hash(), seekLua, limits.held.Milliseconds(), clearSize + keyring.StreamHead, longestAlong},
		along:     !redisconn.IsCluster(rows.Client()) && !rows.Separate(),
		longReads: make(chan struct{}, maxLongReads()),
		breaker:   breaker.Breaker{Threshold: 1, Pause: redisPause, Now: now},
	}
	s.breaker.OnChange = s.noteOutage
	return s
}

func (s *sharedStore) close() {
	s.events.close()
	s.seeks.runners.Wait()
	s.codec.close()
}

// appendRedisKey appends the key of an entry in Redis: a hash of the cache key and of the format version, and a suffix. The version keeps
// replicas of two versions, which run side by side during an update, from constantly replacing each other's copies. The hash tag in braces
// puts all keys of a property into one slot of a cluster, so a pipeline of them is one round trip.
func appendRedisKey(dst []byte, propertyID string, key []byte, suffix string) []byte {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(key)^version)
	dst = append(append(append(dst, "sara:c:{"...), propertyID...), "}:"...)
	return append(hex.AppendEncode(dst, sum[:]), suffix...)
}

// try runs a Redis step within a timeout, unless the circuit breaker is open. No caller depends on its success.
func (s *sharedStore) try(ctx context.Context, limit time.Duration, step func(ctx context.Context) error) {
	if s.breaker.Admit() > 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.settle(ctx, step(bounded))
}

// settle ends a step that the circuit breaker admitted, given the step's error and its caller's context. It reports whether Redis
// answered the step.
func (s *sharedStore) settle(ctx context.Context, err error) bool {
	switch {
	case redisconn.IsAnswer(err):
		s.breaker.Succeeded()
		return true
	case ctx.Err() != nil, errors.Is(err, errPaused): // the caller left, or other steps failed
		s.breaker.Inconclusive()
		return false
	case redisconn.IsFull(err), redisconn.IsMoving(err): // it answers
		s.breaker.Succeeded()
	default:
		s.breaker.Failed(err)
	}
	s.metrics.redisErrors.Inc()
	s.rows.Suspect() // it frees memory
	return false
}

// noteOutage logs the beginning of an outage of Redis, or its end if there is no failure.
func (s *sharedStore) noteOutage(failure error) {
	if failure == nil {
		s.log.Info("the cache uses Redis again")
		return
	}
	s.log.Warn("the cache continues without Redis", "error", failure)
}

// chooseBoth returns the newest entry that answers a lookup, and the newest of a query beside it, from the values of their keys.
func (s *sharedStore) chooseBoth(ctx context.Context, l *lookup, beside []candidate, values [][]byte) (entry, other *Entry) {
	if len(beside) > 0 {
		other = s.choose(ctx, &beside[0].query, 0, beside, values[len(l.all):])
	}
	return s.choose(ctx, &l.Query, l.FirstRows, l.all, values), other
}

// choose returns the newest entry that answers a query with the first rows; a value of no bytes is none. It decodes the rows of older
// ones only if it must.
func (s *sharedStore) choose(ctx context.Context, q *translate.Query, first int, candidates []candidate, values [][]byte) *Entry {
	type found struct {
		of *candidate
		encodedEntry
	}
	entries := make([]found, 0, 2) // on the stack
	defer func() {
		for _, f := range entries {
			f.payload.Close()
		}
	}()
	for n := range candidates {
		c := &candidates[n]
		if len(values[n]) == 0 {
			continue
		}
		encoded, err := s.codec.open(values[n], c.place, s.now())
		if err != nil {
			s.discard(c.redisKey, err)
			continue
		}
		entries = append(entries, found{c, encoded})
	}
	slices.SortStableFunc(entries, func(a, b found) int { return b.headers.filled.Compare(a.headers.filled) })
	for _, f := range entries {
		entry, err := s.codec.decode(ctx, f.encodedEntry, first)
		switch {
		case err != nil && ctx.Err() != nil: // the caller has left
			return nil
		case err != nil:
			s.discard(f.of.redisKey, err)
			continue
		}
		if q.AnsweredBy(f.of.query, entry.Rows().Len()) {
			return entry
		}
	}
	return nil
}

// warnInterval is the time between two warnings about copies that cannot be decrypted.
const warnInterval = time.Minute

// discard counts an unusable value. It logs values that cannot be decrypted, at a limited rate.
func (s *sharedStore) discard(redisKey string, reason error) {
	switch {
	case errors.Is(reason, errVersion):
		s.metrics.version.Inc()
		return
	case errors.Is(reason, errFuture):
		s.metrics.future.Inc()
		return
	case errors.Is(reason, keyring.ErrNotAuthentic):
		s.metrics.notAuthentic.Inc()
	case errors.As(reason, new(*keyring.UnknownKeyError)):
		s.metrics.unknownKey.Inc()
	default:
		s.metrics.torn.Inc()
		return
	}
	now := s.now()
	if after := s.warnAfter.Load(); now.UnixNano() >= after && s.warnAfter.CompareAndSwap(after, now.Add(warnInterval).UnixNano()) {
		s.log.Warn("cached rows in Redis cannot be decrypted, and count as a miss; more within a minute are only counted",
			"redis_key", redisKey, "error", reason)
	}
}
