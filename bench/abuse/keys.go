package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sara/bench/internal/procstat"
	"sara/policy"
)

const (
	addressHeader = "X-Real-Ip" // of the client, where sara trusts the proxy in front
	quietAddress  = "198.51.100.1"
	prefix        = "sara"
)

func trustHeader(*world) ([]string, error) {
	return []string{"SARA_TRUSTED_PROXY_HEADER=" + addressHeader}, nil
}

// guess returns a well-formed key that does not exist.
func guess() string {
	key, _ := policy.NewKey(prefix)
	return key
}

// office guesses keys from the address of many valid keys that sara has not seen since it started.
func office(ctx context.Context, s *stage) error {
	interval := time.Duration(float64(time.Second) / s.guessRate)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := newClient(s.replica.Address)
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	group.Go(func() {
		every(ctx, interval, math.MaxInt64, func(int) { group.Go(func() { s.send(ctx, client, get("/v1/me", guess())) }) })
	})
	pause(ctx, s.guessing) // long enough to use up what one address may guess
	valid := &stage{world: s.world, replica: s.replica, tally: newTally()}
	var keys []string
	for _, account := range s.offices {
		keys = append(keys, s.Keys[account]...)
	}
	const connections = 8
	valid.sendAll(ctx, connections, len(keys)*s.deskRequests, func(n int) *fasthttp.Request { return get("/v1/me", keys[n%len(keys)]) })
	stop()
	group.Wait()
	answered, all := valid.tally.count("200"), len(keys)*s.deskRequests
	s.note("%d of %d requests with valid keys answered", answered, all)
	if answered < all {
		s.problem("valid keys behind the address of the guesses got %v", valid.tally)
	}
	return nil
}

// guesses tries keys from many addresses of one IPv6 /64: well-formed ones and garbage.
func guesses(ctx context.Context, s *stage) error {
	const (
		connections = 64
		aMinute     = 30 // guesses of one address, or /64
		share       = 10 // at most one guess in share may be a query
	)
	address := func(n int) string { return "2001:db8::" + strconv.FormatInt(int64(n+1), 16) }
	before, err := s.queries(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	s.sendAll(ctx, connections, s.guesses, func(n int) *fasthttp.Request { return get("/v1/me", guess(), addressHeader, address(n)) })
	took := time.Since(began)
	after, err := s.queries(ctx)
	if err != nil {
		return err
	}
	unknown := s.tally.count("401")
	if s.countsQueries() {
		s.note("%d database transactions for %d guesses in %.1f s, those of quiet tenants included", after-before, s.guesses, took.Seconds())
		if after-before > int64(s.guesses/share) {
			s.problem("%d guesses made %d queries", s.guesses, after-before)
		}
	}
	if allowed := aMinute + int(took.Minutes()*aMinute) + connections; unknown > allowed {
		s.problem("%d of %d guesses of one /64 were answered with 401, at most %d are allowed", unknown, s.guesses, allowed)
	}
	s.sendAll(ctx, connections, s.nonsense, func(n int) *fasthttp.Request {
		return get("/v1/me", fmt.Sprintf("%s_live_nonsense%d", prefix, n), addressHeader, address(n))
	})
	last, err := s.queries(ctx)
	if s.countsQueries() {
		s.note("%d for %d strings that are no keys", last-after, s.nonsense)
		if last-after > int64(s.nonsense/share) {
			s.problem("%d strings that are no keys made %d queries", s.nonsense, last-after)
		}
	}
	return err
}

func (w *world) countsQueries() bool { return w.postgres && w.reported > 0 }

// queries returns how many transactions PostgreSQL has committed; a look-up is one.
func (w *world) queries(ctx context.Context) (int64, error) {
	if !w.countsQueries() {
		return 0, nil
	}
	pause(ctx, w.reported) // an idle connection reports its figures after ten seconds
	text, err := w.Postgres.Query(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// unbudgeted asks for what no plan's budget covers, with valid keys.
func unbudgeted(ctx context.Context, s *stage) error {
	scripts, err := s.scriptCalls(ctx)
	if err != nil {
		return err
	}
	quietBefore := time.Now()
	const noMinute = 60 // of a plan that names no minute
	perMinute := policy.DefaultPlans()[pro].RequestsPerMinutePerKey
	for _, c := range []struct {
		status    string
		perMinute int
		request   *fasthttp.Request
	}{
		{"404", perMinute, get("/v1/nothing", s.Keys[s.probing][0])},
		{"405", perMinute, post("/v1/me", s.Keys[s.probing][1])},
		{"403", noMinute, get("/v1/me", s.Keys[s.lapsed][0])},
	} {
		const connections = 16
		began := time.Now()
		s.sendAll(ctx, connections, s.size.unbudgeted, func(int) *fasthttp.Request {
			request := new(fasthttp.Request)
			c.request.CopyTo(request)
			return request
		})
		if served, allowed := s.tally.count(c.status), c.perMinute+1+int(time.Since(began).Minutes()*float64(c.perMinute)); served > allowed {
			s.problem("%d of %d were served with %s, at most %d are allowed", served, s.size.unbudgeted, c.status, allowed)
		}
	}
	after, err := s.scriptCalls(ctx)
	if err != nil {
		return err
	}
	const kinds = 3
	ofQuiet := time.Since(quietBefore).Seconds() * (s.hitRate + s.coldRate)
	s.note("%d script calls of Redis, for %d requests and about %.0f of quiet tenants", after-scripts, kinds*s.size.unbudgeted, ofQuiet)
	return nil
}

func post(path, key string) *fasthttp.Request {
	request := get(path, key)
	request.Header.SetMethod(fasthttp.MethodPost)
	return request
}

// scriptCalls returns how many calls of scripts Redis has had.
func (w *world) scriptCalls(ctx context.Context) (int64, error) {
	used, err := procstat.ReadRedis(ctx, w.counters)
	if err != nil {
		return 0, err
	}
	calls := int64(0)
	for _, name := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
		calls += used.Commands[name].Calls
	}
	return calls, nil
}
