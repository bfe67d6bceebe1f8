package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// A historyReplica is a replica that can be cut off from Redis.
type historyReplica struct {
	*RedisBudget
	client   redisconn.Client
	tick     chan time.Time
	cut      *atomic.Bool
	registry *prometheus.Registry
	store    *crashableStore
}

var errCut = errors.New("cut off by the test")

// cutHook fails all commands of a client while cut is set.
type cutHook struct{ cut *atomic.Bool }

func (h cutHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (h cutHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.cut.Load() {
			cmd.SetErr(errCut)
			return errCut
		}
		return next(ctx, cmd)
	}
}

func (h cutHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.cut.Load() {
			for _, cmd := range cmds {
				cmd.SetErr(errCut)
			}
			return errCut
		}
		return next(ctx, cmds)
	}
}

// restart replaces a replica, while Redis is away for all. If it crashes, what it has admitted since the last save is lost.
func (h *history) restart(crash bool) {
	i, old := h.replica()
	if crash {
		old.store.crashed = true
	}
	old.Close()
	h.ended = append(h.ended, old)
	h.start(true)
	last := len(h.replicas) - 1
	h.replicas[i] = h.replicas[last]
	h.replicas = h.replicas[:last]
	h.unsettled = false // what follows does not overlap with the outage
	h.expect(h.replicas[i : i+1])
	if crash {
		h.expectLost(old)
	}
	h.note("replica %d restarts, after a crash: %t", i, crash)
}

// expectLost raises the bounds by what a replica that has crashed had admitted, and neither saved nor counted in Redis. If Redis
// has lost data since, what it had counted may be lost too; the bounds of that loss include it.
func (h *history) expectLost(crashed *historyReplica) {
	for a := range 2 {
		account := fmt.Sprint("account", a)
		has := crashed.fallback.accountOf(account)
		known := h.store.stored[crashed.replica+account].Used
		known.advanceTo(hour(has.used.Hour))
		isKnown := func() bool {
			return has.used.InDay == known.InDay && has.used.charged() == known.charged() && has.used.Returned == known.Returned
		}
		h.forgotten = h.forgotten || h.overlap && !isKnown()
		has.synced.advanceTo(hour(has.used.Hour))
		known.raise(has.synced)
		h.forgotten = h.forgotten || !isKnown()
		hour, day, calls := h.windows(account)
		hour.bound += has.used.InHour - known.InHour
		day.bound += has.used.InDay - known.InDay
		calls.bound += max(0, has.used.Calls-known.Calls)
	}
}

// start starts a replica.
func (h *history) start(cut bool) {
	client, err := redisconn.Open(h.world.server.URL(), patience)
	h.must(err)
	r := &historyReplica{client: client, tick: make(chan time.Time), cut: &atomic.Bool{}, registry: prometheus.NewRegistry(),
		store: &crashableStore{fakeReplicaStore: h.store}}
	client.AddHook(cutHook{r.cut})
	r.cut.Store(cut)
	r.RedisBudget = newRedisBudget(RedisBudgetConfig{Client: client, Replicas: 7, Now: h.clock.now, Store: r.store,
		Log: slog.New(slog.DiscardHandler), Registry: r.registry, Timeout: patience}, r.tick)
	h.must(r.Load(h.t.Context()))
	r.chargeScript, r.restoreScript = h.world.clocked(h.t, chargeLua), h.world.clocked(h.t, restoreLua)
	r.batcher.script = h.world.clocked(h.t, admitLua)
	h.replicas = append(h.replicas, r)
}

// Close ends the replica, and its connections: thousands of histories would use up those of the server.
func (r *historyReplica) Close() {
	r.RedisBudget.Close()
	_ = r.client.Close()
}

// tickAll gives each replica a turn of its background work.
func (h *history) tickAll() {
	for _, r := range h.replicas {
		r.check(h.t.Context())
	}
}

// A fakeReplicaStore keeps the usage in a map.
type fakeReplicaStore struct {
	stored   map[string]ReplicaUsage
	deleting func() error // called before usage is deleted, if set; if it fails, nothing is
}

// A crashableStore is the store of one replica, which loses what the replica saves once it has crashed.
type crashableStore struct {
	*fakeReplicaStore
	crashed bool
}

var errCrashed = errors.New("the replica has crashed")

func (s *crashableStore) SaveReplicaUsage(ctx context.Context, usage []ReplicaUsage) (added []ReplicaUsage, err error) {
	if s.crashed {
		return nil, errCrashed
	}
	return s.fakeReplicaStore.SaveReplicaUsage(ctx, usage)
}

func (s *fakeReplicaStore) SaveReplicaUsage(_ context.Context, usage []ReplicaUsage) (added []ReplicaUsage, err error) {
	for _, u := range usage {
		key := u.Replica + u.Used.AccountID
		if _, ok := s.stored[key]; !ok {
			added = append(added, u)
		}
		s.stored[key] = u
	}
	return added, nil
}

func (s *fakeReplicaStore) ReplicaUsage(_ context.Context, replica string, day int64, after ReplicaAccount, most int) (
	usage []ReplicaUsage, err error) {
	for _, u := range s.stored {
		if u.Used.Day == day && (replica == "" || u.Replica == replica) && u.of().compare(after) > 0 {
			usage = append(usage, u)
		}
	}
	slices.SortFunc(usage, func(a, b ReplicaUsage) int { return a.of().compare(b.of()) })
	return usage[:min(len(usage), most)], nil
}

// compare orders as the store does.
func (a ReplicaAccount) compare(b ReplicaAccount) int {
	return cmp.Or(strings.Compare(a.Replica, b.Replica), strings.Compare(a.AccountID, b.AccountID))
}

func (s *fakeReplicaStore) DeleteReplicaUsage(_ context.Context, usage []ReplicaUsage, before int64) error {
	if s.deleting != nil {
		if err := s.deleting(); err != nil {
			return err
		}
	}
	for _, u := range usage {
		if key := u.Replica + u.Used.AccountID; s.stored[key] == u {
			delete(s.stored, key)
		}
	}
	maps.DeleteFunc(s.stored, func(_ string, u ReplicaUsage) bool { return u.Used.Day < before })
	return nil
}

// accountOf returns a copy of an account.
func (b *MemoryBudget) accountOf(id string) account {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.account(id, now)
}

// counterOf returns a counter, of one label or of none.
func counterOf(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == name && (label == "" || m.Label[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, label)
	return 0
}
