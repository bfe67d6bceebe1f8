package cache

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"sara/proxy/spans"
)

// limits of the steps with Redis, in real time. The way of a request has one lookUp, which finds out whether Redis is
// there, and one lease, which may take what is left of the request's patience: to go without it may cost an upstream call.
type limits struct {
	lookUp        time.Duration
	patience      time.Duration // of a request, for a Redis that does not answer
	background    time.Duration // what no request waits for
	pause         time.Duration // after an error
	held, renewal time.Duration // how long a lease lasts, and how often it is renewed
}

func limitsFor(patience time.Duration) limits {
	return limits{
		lookUp: patience * 6 / 10, patience: patience, background: max(time.Second, patience), pause: time.Second,
		held: 2 * time.Second, renewal: 500 * time.Millisecond,
	}
}

// lease returns the limit of the step that takes the lease, for an inquiry that began then.
func (l limits) lease(began time.Time) time.Duration {
	return max(l.patience-l.lookUp, l.patience-time.Since(began))
}

// sharedStore is what the replicas have in common: copies, leases and notices in Redis.
type sharedStore struct {
	client  redis.UniversalClient
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	limits  limits
	codec   *codec
	notices *notices

	paused atomic.Int64 // until when Redis is let alone, in nanoseconds since 1970; 0: it works
}

func newSharedStore(config *Config, now func() time.Time, m *metrics) (*sharedStore, error) {
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	codec, err := newCodec(maxPayload)
	if err != nil {
		return nil, err
	}
	return &sharedStore{
		client: config.Redis, log: log, now: now, metrics: m, limits: limitsFor(cmp.Or(config.RedisPatience, defaultPatience)),
		codec: codec, notices: listen(config.Redis),
	}, nil
}

func (s *sharedStore) close() {
	s.notices.close()
	s.codec.close()
}

// sharedKey returns the key in Redis. What belongs to a property has one slot of a cluster.
func sharedKey(propertyID, key string) string {
	sum := xxhash.New()
	_, _ = sum.WriteString(key) // a hash has no errors
	return "sara:c:{" + propertyID + "}:" + hex.EncodeToString(sum.Sum(nil))
}

// try runs a step with Redis within a limit and reports whether it worked. While Redis is let alone, nothing is tried. When
// that is over, one step is, and tells how Redis is.
func (s *sharedStore) try(ctx context.Context, limit time.Duration, step func(ctx context.Context) error) bool {
	now := s.now()
	until := s.paused.Load()
	if until != 0 && (now.UnixNano() < until || !s.paused.CompareAndSwap(until, now.Add(s.limits.pause).UnixNano())) {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := step(bounded)
	switch {
	case err == nil || errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE"): // somebody else's value
		if s.paused.Swap(0) != 0 {
			s.log.Info("the cache uses Redis again")
		}
		return true
	case ctx.Err() != nil:
		return false // whoever asked has left, which says nothing about Redis
	}
	s.metrics.redisErrors.Inc()
	if s.paused.Swap(s.now().Add(s.limits.pause).UnixNano()) == 0 {
		s.log.Warn("the cache does without Redis", "error", err)
	}
	return false
}

// fetch returns the freshest copy that answers the question, or nil, in one round trip.
func (s *sharedStore) fetch(ctx context.Context, i *lookup) *Entry {
	ctx, span := spans.StartCall(ctx, "read Redis")
	defer span.End()
	var values []*redis.StringCmd
	ok := s.try(ctx, s.limits.lookUp, func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		values = s.get(ctx, pipe, i)
		_, err := pipe.Exec(ctx)
		return err
	})
	if !ok {
		return nil
	}
	return s.choose(i, values)
}

// get asks for the copies of all candidates, the question's own first.
func (s *sharedStore) get(ctx context.Context, pipe redis.Pipeliner, i *lookup) []*redis.StringCmd {
	values := []*redis.StringCmd{pipe.Get(ctx, i.own.shared)}
	for _, other := range i.others {
		values = append(values, pipe.Get(ctx, other.shared))
	}
	return values
}

// choose reads the rows of no more copies than it must.
func (s *sharedStore) choose(i *lookup, values []*redis.StringCmd) *Entry {
	type copied struct {
		candidate
		*sealed
	}
	var copies []copied
	for n, from := range append([]candidate{i.own}, i.others...) {
		value, err := values[n].Bytes()
		if errors.Is(err, redis.Nil) {
			continue
		}
		var sealed *sealed
		if err == nil {
			sealed, err = open(value, from.key, s.now())
		}
		if err != nil {
			s.discard(err)
			continue
		}
		copies = append(copies, copied{from, sealed})
	}
	slices.SortStableFunc(copies, func(a, b copied) int { return b.entry.filled.Compare(a.entry.filled) })
	for _, c := range copies {
		entry, err := s.codec.unpack(c.sealed)
		if err != nil {
			s.discard(err)
			continue
		}
		if i.Query.AnsweredBy(c.query, entry.rows.Len()) {
			return entry
		}
	}
	return nil
}

func (s *sharedStore) discard(reason error) {
	switch {
	case errors.Is(reason, errVersion):
		s.metrics.version.Inc()
	case errors.Is(reason, errForeign):
		s.metrics.foreign.Inc()
	default:
		s.metrics.torn.Inc()
	}
}
