package cache

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/proxy/spans"
)

// turn is what a replica learns when it wants to fill: one of its fields is set, or none when it should try again.
type turn struct {
	entry   *Entry // somebody has filled, and how that is known
	how     Status
	token   string // the lease is this replica's; it may come with an entry
	failure []byte // somebody's fill failed for everybody
	alone   bool   // Redis is of no help
}

// leaseKey has the slot of the value.
func leaseKey(i *lookup) string { return i.own.shared + ":lease" }

// lease takes the lease of a question, or waits until its holder tells the outcome or the lease may have lapsed.
func (s *sharedStore) lease(ctx context.Context, i *lookup) turn {
	ctx, span := spans.StartCall(ctx, "take lease")
	defer span.End()
	// Before the lease is asked for, so that no notice of its holder is missed.
	notice, forget := s.notices.register(i.own.shared)
	defer forget()
	t, ok := s.take(ctx, i)
	switch {
	case !ok:
		return turn{alone: ctx.Err() == nil}
	case t.token != "" || t.entry != nil && s.now().Sub(t.entry.filled) < i.TTL:
		return t
	}
	lapse := time.NewTimer(s.limits.held)
	defer lapse.Stop()
	select {
	case told := <-notice:
		switch told.kind {
		case noticeFilled:
			return turn{entry: s.fetch(ctx, i), how: Coalesced}
		case noticeFailed:
			return turn{failure: told.failure}
		}
	case <-lapse.C:
	case <-ctx.Done():
	}
	return turn{}
}

// take asks for the lease and, since somebody may just have finished, for the copies after that, in one round trip.
func (s *sharedStore) take(ctx context.Context, i *lookup) (turn, bool) {
	token := rand.Text()
	var taken *redis.BoolCmd
	var values []*redis.StringCmd
	ok := s.try(ctx, s.limits.lease(i.began), func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		taken = pipe.SetNX(ctx, leaseKey(i), token, s.limits.held)
		values = s.get(ctx, pipe, i)
		_, err := pipe.Exec(ctx)
		return err
	})
	if !ok {
		return turn{}, false
	}
	t := turn{entry: s.choose(i, values), how: HitShared}
	if taken.Val() {
		t.token = token
	}
	return t, true
}

// renew keeps the lease until ctx ends. It is of no use to renew one that has gone to somebody else.
func (s *sharedStore) renew(ctx context.Context, i *lookup, token string) {
	const script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`
	tick := time.NewTicker(s.limits.renewal)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.try(ctx, s.limits.renewal, func(ctx context.Context) error {
			return s.client.Eval(ctx, script, []string{leaseKey(i)}, token, s.limits.held.Milliseconds()).Err()
		})
	}
}

// settle stores what was filled, gives the lease back, and then tells who waits: in one round trip, and in this order. It
// outlives the fill's context, so that nobody has to wait out the lease of a process that ends in order.
func (s *sharedStore) settle(i *lookup, o *outcome) {
	if o.how != Filled && o.token == "" {
		return // nothing was stored, nobody waits for this process
	}
	const script = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end
return redis.call('publish', ARGV[2], ARGV[3])`
	told := notice{kind: noticeFilled}
	switch {
	case o.shared:
		told = notice{kind: noticeFailed, failure: o.notice}
	case o.err != nil:
		told = notice{kind: noticeReleased}
	}
	s.try(context.Background(), s.limits.background, func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		if o.err == nil && o.how == Filled {
			pipe.Set(ctx, i.own.shared, s.codec.encode(o.entry), maxStale)
		}
		pipe.Eval(ctx, script, []string{leaseKey(i)}, o.token, noticeChannel, told.encode(i.own.shared))
		_, err := pipe.Exec(ctx)
		return err
	})
	// Those in this process need not depend on their subscription.
	s.notices.deliver(i.own.shared, told)
}
