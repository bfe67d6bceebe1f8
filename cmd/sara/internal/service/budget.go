package service

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/proxy"
	"sara/proxy/redisrows"
)

// Budgets counts requests and upstream calls against the limits, in Redis or in memory.
type Budgets struct {
	Budget        policy.Budget
	Degraded      func() bool         // nil if it never is
	Degradations  []proxy.Degradation // what else may be wrong with the counts
	Invalidations Invalidations       // nil without Redis: then the server finds changes within a second
	Redis         redisconn.Client    // for other state that replicas share; nil without Redis
	Rows          *redisrows.Store    // of the response cache; nil without Redis
	Close         func()
}

// Invalidations tells the listener about every change of another process, until ctx ends.
type Invalidations func(ctx context.Context, listener policy.Listener)

// BudgetConfig configures budgets. Every field is required.
type BudgetConfig struct {
	Location settings.Redis // not set: the budgets are in memory
	Rows     settings.SharedRows
	RowBytes int64 // bounds the rows in Redis
	Replicas int
	Store    *sqlstore.Store
	Log      *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time
}

// OpenBudgets returns budgets in Redis or, without one, in memory for this process alone. The caller closes them after the
// server and before the store.
func OpenBudgets(ctx context.Context, c BudgetConfig) (Budgets, error) {
	if !c.Location.IsSet() {
		c.Log.WarnContext(ctx, cmp.Or(UnsharedNote(c.Location, c.Replicas), "without SARA_REDIS_URL, requests are counted in memory: for one process only"))
		return MemoryBudgets(ctx, c.Store, c.Log, c.Now)
	}
	return openRedisBudgets(ctx, c)
}

// MemoryBudgets returns budgets in memory. The store persists them, so that a restart does not reset the limits.
func MemoryBudgets(ctx context.Context, store *sqlstore.Store, log *slog.Logger, now func() time.Time) (Budgets, error) {
	const saveEvery = time.Second
	local := policy.NewMemoryBudget(now)
	if err := local.Load(ctx, store); err != nil {
		return Budgets{}, err
	}
	saves := &usageSaves{log: log}
	persisting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		local.Persist(persisting, store, time.Tick(saveEvery), saves.note)
	})
	return Budgets{
		Budget:       local,
		Degradations: []proxy.Degradation{{Reason: "unsaved_usage", Active: saves.problem}},
		Close: func() {
			stop()
			done.Wait()
		},
	}, nil
}

// usageSaves notes whether today's usage can be saved, such as on a disk that is not full. It is safe for concurrent use.
type usageSaves struct {
	log    *slog.Logger
	failed atomic.Pointer[string] // the error of the last save; nil: all is saved
}

// note notes a save. Only the first of several failures is logged.
func (s *usageSaves) note(err error) {
	if err == nil {
		s.failed.Store(nil)
		return
	}
	text := "today's usage cannot be saved, a restart would lose it: " + err.Error()
	if s.failed.Swap(&text) == nil {
		s.log.Error(text)
	}
}

// problem says what is wrong, for people; empty: nothing is.
func (s *usageSaves) problem() string {
	if text := s.failed.Load(); text != nil {
		return *text
	}
	return ""
}

// UnsharedNote warns of several processes without a Redis to share their counts. It is empty if all is well.
func UnsharedNote(location settings.Redis, replicas int) string {
	if location.IsSet() || replicas < 2 {
		return ""
	}
	return "SARA_REPLICAS is " + strconv.Itoa(replicas) + ", but without SARA_REDIS_URL each process counts for itself and grants all of " +
		"every limit: set SARA_REDIS_URL, the same for all of them, or SARA_REPLICAS to 1"
}
