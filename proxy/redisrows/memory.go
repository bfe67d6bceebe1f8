package redisrows

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/proxy/redisinfo"
)

const (
	// fullPercent is the part of a server's maxmemory that rows leave for counters, and that grows between two looks.
	fullPercent = 85
	// lookInterval is how often Watch reads INFO; while a server does not answer, every tick does.
	lookInterval = 10 * time.Second
	lookTimeout  = time.Second
	// awayAfter is the number of failed looks in a row after which the server of the rows counts as down.
	awayAfter = 2
	// maxLooks and maxRounds bound the work of one look: how often it reads INFO, and how often it trims after that, by up to 128
	// rows each time.
	maxLooks, maxRounds = 8, 200
	// sweepInterval is the time between two searches for rows that are not in the index.
	sweepInterval = 5 * time.Minute
)

// Watch keeps the bound up to date, and deletes rows when the memory fills, until ctx ends. It looks at the servers at once,
// every ten seconds, after Suspect, and at each tick while they do not answer.
func (s *Store) Watch(ctx context.Context, tick <-chan time.Time) {
	var next time.Time
	for {
		if now := s.config.Now(); !now.Before(next) {
			next = now
			if s.lookAndSweep(ctx) == nil {
				next = now.Add(lookInterval)
			}
		}
		select {
		case <-tick:
		case <-s.suspect:
			next = time.Time{}
		case <-ctx.Done():
			return
		}
	}
}

func (s *Store) lookAndSweep(ctx context.Context) error {
	seen, err := s.look(ctx)
	if err == nil {
		err = s.sweepIfFull(ctx, seen)
	}
	return err
}

// Suspect makes Watch look at the servers at once, since one of them did not answer.
func (s *Store) Suspect() {
	select {
	case s.suspect <- struct{}{}:
	default: // it will
	}
}

// Away reports whether the server of the rows is down.
func (s *Store) Away() bool { return s.failures.Load() >= awayAfter }

// Separate reports whether the rows have a client of their own, apart from the counters.
func (s *Store) Separate() bool { return s.config.Rows != s.config.Counters }

// Relieve looks at the servers now and deletes rows if they fill the memory. Call it when Redis has refused a write for that.
func (s *Store) Relieve(ctx context.Context) error {
	_, err := s.look(ctx)
	s.Suspect() // Watch searches for rows that are not in the index
	return err
}

// servers is the INFO of both Redis, empty where it is not known.
type servers struct{ rows, counters []redisinfo.Server }

// look reads INFO, sets the bound by it, and evicts the rows beyond it.
func (s *Store) look(ctx context.Context) (seen servers, err error) {
	select {
	case s.looking <- struct{}{}:
		defer func() { <-s.looking }()
	case <-ctx.Done():
		return seen, ctx.Err()
	}
	if s.Separate() {
		seen.counters = s.readCounters(ctx)
		s.metrics.observe("counters", seen.counters)
	}
	if err = s.makeRoom(ctx, &seen); err != nil {
		if ctx.Err() == nil { // or the caller has left, which shows nothing about Redis
			s.measured.Store(false) // it may come back as another server, with less memory
			s.failures.Add(1)
		}
		return seen, err
	}
	s.failures.Store(0)
	s.measured.Store(true)
	if s.Separate() {
		s.metrics.observe("rows", seen.rows)
	} else {
		seen.counters = seen.rows
		s.metrics.observe("counters", seen.rows)
	}
	s.metrics.observePolicy(seen.counters)
	return seen, nil
}

// makeRoom reads the INFO of the rows' servers and shrinks the rows, and does so again while one of them is full: a row frees a
// little less than it weighs, and of a cluster's rows only some are on the full master.
func (s *Store) makeRoom(ctx context.Context, seen *servers) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for range maxLooks {
		held, err := s.held(ctx) // before INFO: rows that others write in between count as memory that is not of rows
		if err != nil {
			return err
		}
		if seen.rows, err = redisinfo.Read(ctx, s.config.Rows); err != nil && !redisinfo.Refused(err) {
			return err
		}
		if err := s.shrink(ctx, *seen, held); err != nil {
			return err
		}
		if held == 0 || !isFull(seen.rows) {
			break
		}
	}
	return nil
}

// readCounters reads the INFO of the counters' own server. That it does not answer is for the budgets to notice.
func (s *Store) readCounters(ctx context.Context) []redisinfo.Server {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	seen, err := redisinfo.Read(ctx, s.config.Counters)
	if err != nil {
		return nil
	}
	return seen
}

// shrink sets the bound by what the servers of the rows report, and evicts the rows beyond it.
func (s *Store) shrink(ctx context.Context, seen servers, held int64) error {
	bound := s.config.Bytes
	if all, known := redisinfo.Sum(seen.rows, "maxmemory"); known && all > 0 && s.together(seen) {
		bound = min(bound, all/2)
	}
	if room, limited := headroom(seen.rows); limited {
		bound = min(bound, max(0, held+room))
	}
	s.setBound(ctx, bound)
	s.metrics.bytes.Set(float64(held))
	for range maxRounds {
		if held <= bound {
			break
		}
		result, err := s.indexed(s.trim.Run(ctx, s.config.Rows, indexKeys(), s.arguments("", 0, "", 0)...))
		if err == nil {
			err = s.unlink(ctx, s.config.Rows, result.evicted)
		}
		if err != nil {
			return err
		}
		if held = result.bytes; result.count == 0 {
			break
		}
	}
	return nil
}

// together reports whether rows and counters share a server: by one client, or by two whose URLs lead to the same server.
func (s *Store) together(seen servers) bool {
	return !s.Separate() || slices.ContainsFunc(seen.rows, func(of redisinfo.Server) bool {
		id := of["run_id"]
		return id != "" && slices.ContainsFunc(seen.counters, func(other redisinfo.Server) bool { return other["run_id"] == id })
	})
}

func (s *Store) setBound(ctx context.Context, bound int64) {
	before := s.bound.Swap(bound)
	s.metrics.bound.Set(float64(bound))
	if bound == 0 && before > 0 {
		s.config.Log.WarnContext(ctx, "Redis is nearly full without cached rows, so none are written until it has room",
			slog.Int("percent", fullPercent))
	} else if before == 0 && bound > 0 {
		s.config.Log.InfoContext(ctx, "Redis has room for cached rows again")
	}
}

// held returns the bytes of all rows by the index.
func (s *Store) held(ctx context.Context) (int64, error) {
	text, err := s.config.Rows.HGet(ctx, indexKeys()[2], "all").Result()
	switch {
	case errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "WRONGTYPE"):
		return 0, nil
	case err != nil:
		return 0, err
	}
	held, err := strconv.ParseInt(text, 10, 64)
	if err != nil || held < 0 || held > maxHeld {
		return 0, nil // damaged: the next write starts the index again
	}
	return held, nil
}

// maxHeld is the most that index.lua takes for a sum of bytes.
const maxHeld = 1 << 53

// headroom returns how many bytes of rows fit until one of the servers is full, negative if one is. limited is false if none
// reports a limit.
func headroom(servers []redisinfo.Server) (room int64, limited bool) {
	for _, server := range servers {
		used, most, known := server.Memory()
		if !known || most == 0 {
			continue
		}
		if left := most*fullPercent/100 - used; !limited || left < room {
			room, limited = left, true
		}
	}
	return room, limited
}

// isFull reports whether one of the servers is full.
func isFull(servers []redisinfo.Server) bool {
	room, limited := headroom(servers)
	return limited && room < 0
}

// unlink deletes rows. Those of a cluster are on several servers.
func (s *Store) unlink(ctx context.Context, client redis.Cmdable, keys []string) error {
	for chunk := range slices.Chunk(keys, 128) {
		pipe := client.Pipeline()
		for _, key := range chunk {
			pipe.Unlink(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
