package cache

import "context"

// Do returns the rows of a request: from memory, from Redis, or by a fill. It returns when ctx ends, or at most
// Config.RedisPatience later. Its error is one of Fill or of ErrorCodec.Decode, or wraps ctx's, and comes with stale rows, if
// there are any.
func (c *Cache) Do(ctx context.Context, r Request) (Found, error) {
	found, rest := c.Look(ctx, r)
	if rest != nil {
		return rest()
	}
	return found, nil
}

// Look does as much of Do as needs no waiting for a fill: it looks into memory and into Redis. If that is not enough, it returns the rest
// of Do, so that the caller can wait in another goroutine.
func (c *Cache) Look(ctx context.Context, r Request) (found Found, rest func() (Found, error)) {
	has, ok := c.AtOnce(r)
	if ok {
		return has, nil
	}
	l := newLookup(&r)
	if r.Bypass || has.Entry == nil && c.flights.haveAny(l.others) {
		return Found{}, func() (Found, error) { return c.doWaiting(ctx, l) }
	}
	has, in, err := c.lookUp(ctx, l, has)
	if in.flight == nil && err == nil && l.isAnsweredBy(has) {
		return has, nil
	}
	return Found{}, c.rest(ctx, l, has, in, err)
}

// rest returns the rest of Do after lookUp. Inlined in Look, the closure would move its variables to the heap even for requests that do
// not need it.
func (c *Cache) rest(ctx context.Context, l *lookup, has Found, in seat, err error) func() (Found, error) {
	return func() (Found, error) { return c.finish(ctx, l, has, in, err) }
}

// doWaiting is Do for a request that memory does not answer, and that may wait for a fill before it looks into Redis.
func (c *Cache) doWaiting(ctx context.Context, l *lookup) (Found, error) {
	if l.Bypass {
		return c.bypass(ctx, l)
	}
	if found := c.afterSibling(ctx, l); found.Entry != nil {
		c.metrics.awaitedProcess.Inc()
		return c.complete(ctx, l, found, nil)
	}
	found, in, err := c.lookUp(ctx, l, Found{})
	return c.finish(ctx, l, found, in, err)
}

// lookUp looks into Redis when memory has no fresh rows. The result is found and err, unless a flight has to be waited for.
func (c *Cache) lookUp(ctx context.Context, l *lookup, has Found) (found Found, in seat, err error) {
	found, servable := has, !l.Current && has.servable() // before the refill begins, since it may fail at once
	if in, err = c.enter(ctx, l, found); err != nil {
		return found, seat{}, err
	}
	if newer := c.newer(found, in.copied, l.TTL); newer.Entry != found.Entry {
		found, servable = newer, newer.Stale && !l.Current && !in.failed
	}
	switch {
	case found.Entry != nil && !found.Stale:
		c.metrics.shared.Inc()
		return found, seat{}, nil
	case servable: // stale-while-revalidate
		c.metrics.revalidating.Inc()
		return found, seat{}, nil
	}
	c.metrics.miss.Inc()
	return found, in, nil
}

// finish ends Do after lookUp.
func (c *Cache) finish(ctx context.Context, l *lookup, found Found, in seat, err error) (Found, error) {
	if in.flight != nil {
		found, err = c.await(ctx, l, found, in)
	}
	return c.complete(ctx, l, found, err)
}

// complete makes sure that the rows include all that the request needs: they may have been found by another request that needed fewer.
func (c *Cache) complete(ctx context.Context, l *lookup, found Found, err error) (Found, error) {
	if found.Entry == nil || l.isAnsweredBy(found) {
		return found, err
	}
	all := c.fromRedis(ctx, l, Found{})
	switch all.Status = found.Status; {
	case l.isAnsweredBy(all) && (found.Stale || !all.Stale):
		return all, err
	case err != nil:
		return Found{}, err
	}
	// It may have waited for another request's fill, which ended with the first rows of another replica's.
	found, err = c.bypass(ctx, l)
	return c.complete(ctx, l, found, err)
}

// isAnsweredBy reports whether all rows that the lookup needs have been found.
func (l *lookup) isAnsweredBy(found Found) bool {
	return found.Entry != nil && found.Entry.Rows().HasFirst(l.FirstRows)
}

// AtOnce returns fresh rows from memory without waiting. ok is false if memory has none, or if the request bypasses it: then call Do.
func (c *Cache) AtOnce(r Request) (found Found, ok bool) {
	if r.Bypass {
		return Found{}, false
	}
	found = c.fromMemory(&r)
	if ok = found.Entry != nil && !found.Stale; ok {
		c.metrics.memory.Inc()
	}
	return found, ok
}

// bypass fills without looking for copies first. If that fails, it returns the copies with the error.
func (c *Cache) bypass(ctx context.Context, l *lookup) (found Found, err error) {
	c.metrics.bypass.Inc()
	in, err := c.enter(ctx, l, Found{})
	if err == nil {
		found, err = c.await(ctx, l, Found{}, in)
	}
	if err != nil {
		return c.Copy(ctx, l.Request), err
	}
	return found, nil
}

// Copy returns the newest copy of the rows in memory or in Redis, however stale, up to a day old; nil if there is none. It neither
// fills nor waits for a fill.
func (c *Cache) Copy(ctx context.Context, r Request) Found {
	return c.fromRedis(ctx, newLookup(&r), c.fromMemory(&r))
}

// Has reports whether Do would return rows without waiting for a fill. If they are in Redis, it loads them into memory.
func (c *Cache) Has(ctx context.Context, r Request) bool {
	if r.Bypass {
		return false
	}
	found := c.fromMemory(&r)
	if found.Entry == nil || found.Stale {
		found = c.fromRedis(ctx, newLookup(&r), found)
	}
	return found.Entry != nil && !found.Stale || !r.Current && found.servable()
}
