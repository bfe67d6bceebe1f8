package cache

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

// maxRest is the longest rest that is believed: the upstream's quotas are of a day at most.
const maxRest = 48 * time.Hour

// rests are the sites that the upstream wants to be left alone, as far as this process knows.
type rests struct {
	mu     sync.Mutex
	bySite map[string]rest
}

type rest struct {
	err   error
	until time.Time
}

// Rest remembers, here and for every replica, that the upstream refused to answer for a site, and until when it is not to
// be asked. An error that is not shared by the ErrorCodec is remembered here only.
func (c *Cache) Rest(ctx context.Context, site string, err error, until time.Time) {
	now := c.now()
	left := until.Sub(now)
	if left <= 0 {
		return
	}
	c.rests.put(site, rest{err: err, until: until}, now)
	data, shared := c.errors.Encode(err)
	if c.redis == nil || !shared {
		return
	}
	value := appendRest(nil, until, data)
	c.redis.try(ctx, c.redis.limits.lookUp, func(ctx context.Context) error {
		return c.redis.client.Set(ctx, restKey(site), value, left).Err()
	})
}

// Resting returns for how long a site rests still, and the error it rests with, or 0 and nil when it may be asked. What
// this process does not know costs one round trip to Redis.
func (c *Cache) Resting(ctx context.Context, site string) (left time.Duration, err error) {
	now := c.now()
	if known, ok := c.rests.get(site); ok && known.until.After(now) {
		return known.until.Sub(now), known.err
	}
	if c.redis == nil {
		return 0, nil
	}
	var value []byte
	c.redis.try(ctx, c.redis.limits.lookUp, func(ctx context.Context) (err error) {
		value, err = c.redis.client.Get(ctx, restKey(site)).Bytes()
		return err
	})
	if len(value) == 0 {
		return 0, nil
	}
	until, data, ok := parseRest(value)
	if left = until.Sub(now); !ok || left > maxRest {
		c.metrics.torn.Inc()
		return 0, nil
	}
	if left <= 0 {
		return 0, nil
	}
	err = c.errors.Decode(data)
	c.rests.put(site, rest{err: err, until: until}, now)
	return left, err
}

func restKey(site string) string { return "sara:rest:" + site }

func (r *rests) get(site string) (rest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.bySite[site]
	return known, ok
}

// put forgets the rests that are over, too, so that there are never more than sites at rest.
func (r *rests) put(site string, known rest, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for site, old := range r.bySite {
		if !old.until.After(now) {
			delete(r.bySite, site)
		}
	}
	if r.bySite == nil {
		r.bySite = map[string]rest{}
	}
	r.bySite[site] = known
}

// appendRest appends a rest as it is in Redis: a version, until when in milliseconds since 1970, the error, and the
// xxHash64 of all that.
func appendRest(dst []byte, until time.Time, failure []byte) []byte {
	start := len(dst)
	dst = append(dst, version)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(until.UnixMilli()))
	dst = append(dst, failure...)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

func parseRest(value []byte) (until time.Time, failure []byte, ok bool) {
	body := len(value) - sumSize
	if body < 1+8 || value[0] != version || xxhash.Sum64(value[:body]) != binary.LittleEndian.Uint64(value[body:]) {
		return time.Time{}, nil, false
	}
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(value[1:]))), value[1+8 : body], true
}
