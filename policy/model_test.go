package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sara/policy/redistest"
)

// A referenceBudget is simple enough to be obviously right. One stands for Redis, and one for the fallback of each replica. Its
// buckets are never refilled, because the test ends before a token comes back.
type referenceBudget struct {
	share, liveShare int
	hour, day, calls map[string]int
	drained          map[string]int // by key or property: seconds of refill until its bucket is full
}

func newReferenceBudget(share, liveShare int) *referenceBudget {
	return &referenceBudget{share, liveShare, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
}

// admit charges a request, or returns the ceilings that refuse it.
func (r *referenceBudget) admit(account, key string, p Plan) (refusing []Ceiling) {
	cost := 60 / divide(p.RequestsPerMinutePerKey, r.share)
	if r.drained[key]+cost > 60 {
		refusing = append(refusing, KeyMinute)
	}
	if r.hour[account] >= divide(p.RequestsPerHour, r.share) {
		refusing = append(refusing, AccountHour)
	}
	if r.day[account] >= divide(p.RequestsPerDay, r.share) {
		refusing = append(refusing, AccountDay)
	}
	if len(refusing) == 0 {
		r.drained[key] += cost
		r.hour[account]++
		r.day[account]++
	}
	return refusing
}

func (r *referenceBudget) charge(account, property string, n int, p Plan) (refusing []Ceiling) {
	cost := n * 60 / divide(p.LiveCallsPerMinutePerProperty, r.liveShare)
	if r.drained[property]+cost > 60 {
		refusing = append(refusing, PropertyMinute)
	}
	if r.calls[account]+n > divide(p.SearchConsoleCallsPerDay, r.liveShare) {
		refusing = append(refusing, AccountCalls)
	}
	if len(refusing) == 0 {
		r.drained[property] += cost
		r.calls[account] += n
	}
	return refusing
}

// A model runs the budgets under test and their references side by side.
type model struct {
	t         *testing.T
	random    *rand.Rand
	server    *redistest.Server
	counters  *budgets
	replicas  []*testRedisBudget
	redis     *referenceBudget
	fallbacks []*referenceBudget
	pending   []*referenceBudget // admitted by the fallbacks, not synced yet
	plans     []Plan
	restore   func() // ends the outage; nil if there is none
}

const (
	modelAccounts = 4
	modelReplicas = 3
)

func TestRedisBudgetAgreesWithAReferenceThroughOutages(t *testing.T) {
	t.Parallel()
	avoidHourEnd(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("to repeat: SEED=%d", seed)
	server := redistest.Single(t)
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), server: server, redis: newReferenceBudget(1, 1), counters: &budgets{}, plans: []Plan{
		{RequestsPerMinutePerKey: 10, RequestsPerHour: 12, RequestsPerDay: 30, SearchConsoleCallsPerDay: 20, LiveCallsPerMinutePerProperty: 10},
		{RequestsPerMinutePerKey: 5, RequestsPerHour: 9, RequestsPerDay: 18, SearchConsoleCallsPerDay: 9, LiveCallsPerMinutePerProperty: 10},
	}}
	over := redisBudgets(t, server.URL(), server.Client())
	m.counters.counts, m.counters.endHour, m.counters.endDay = over.counts, over.endHour, over.endDay
	for range modelReplicas {
		m.replicas = append(m.replicas, startRedisBudget(t, server.URL(), redisOptions{patient: true, replicas: modelReplicas}))
		m.fallbacks = append(m.fallbacks, newReferenceBudget(modelReplicas, 2*modelReplicas))
		m.pending = append(m.pending, newReferenceBudget(1, 1))
	}
	steps := 1500
	if testing.Short() {
		steps = 150
	}
	// After six seconds the first token comes back, which the references do not model.
	for step, begun := 0, time.Now(); step < steps && time.Since(begun) < 4*time.Second; step++ {
		m.step()
		if t.Failed() {
			t.Fatalf("at step %d of SEED=%d", step, seed)
		}
	}
	m.endOutage()
	m.compare()
}

func (m *model) step() {
	switch dice := m.random.IntN(200); {
	case dice < 1:
		m.beginOutage()
	case dice < 5:
		m.endOutage()
	case dice < 8:
		m.endWindow()
	case dice < 60:
		m.charge()
	case dice < 70:
		m.refund()
	default:
		m.admit()
	}
}

func (m *model) pick() (replica int, account string, plan Plan) {
	return m.random.IntN(modelReplicas), fmt.Sprint("account", m.random.IntN(modelAccounts)), m.plans[m.random.IntN(len(m.plans))]
}

func (m *model) admit() {
	r, account, plan := m.pick()
	key := fmt.Sprint(account, "key", m.random.IntN(4))
	usage, refusal := m.replicas[r].Admit(m.t.Context(), account, key, plan)
	decider := m.decider(r)
	want := decider.admit(account, key, plan)
	m.check(refusal, want)
	if refusal == nil && (usage.RequestsThisHour != decider.hour[account] || usage.RequestsToday != decider.day[account]) {
		m.t.Errorf("usage %+v, want %d and %d", usage, decider.hour[account], decider.day[account])
	}
	if refusal == nil && decider != m.redis {
		m.pending[r].hour[account]++
		m.pending[r].day[account]++
	}
}

func (m *model) charge() {
	r, account, plan := m.pick()
	property, n := fmt.Sprint("property", m.random.IntN(6)), 1+m.random.IntN(2)
	refusal := m.replicas[r].ChargeLiveCalls(m.t.Context(), account, property, n, plan)
	decider := m.decider(r)
	m.check(refusal, decider.charge(account, property, n, plan))
	if refusal == nil && decider != m.redis {
		m.pending[r].calls[account] += n
	}
}

func (m *model) refund() {
	r, account, _ := m.pick()
	n := 1 + m.random.IntN(2)
	m.replicas[r].RefundLiveCalls(m.t.Context(), account, n, time.Now())
	if decider := m.decider(r); decider == m.redis {
		decider.calls[account] = max(0, decider.calls[account]-n)
	} else {
		decider.calls[account] -= n
		m.pending[r].calls[account] -= n
	}
}

// decider returns the reference of the budget, Redis or fallback, that has just decided for a replica.
func (m *model) decider(r int) *referenceBudget {
	if m.replicas[r].Degraded() {
		return m.fallbacks[r]
	}
	return m.redis
}

func (m *model) check(refusal *Refusal, want []Ceiling) {
	if refusal == nil && len(want) == 0 {
		return
	}
	for _, ceiling := range want {
		if refusal != nil && refusal.Ceiling == ceiling && refusal.RetryAfter > 0 {
			return
		}
	}
	m.t.Errorf("refusal %+v, want one of %v", refusal, want)
}

func (m *model) beginOutage() {
	switch {
	case m.restore != nil:
	case m.random.IntN(2) == 0:
		m.server.Stop()
		m.restore = m.server.Start
	default:
		// A frozen server costs each replica one timeout; no call is running that could read it now.
		m.setTimeout(2 * expiryMargin)
		m.server.Freeze()
		m.restore = func() {
			m.server.Thaw()
			m.setTimeout(patience)
		}
	}
}

func (m *model) setTimeout(timeout time.Duration) {
	for _, s := range m.replicas {
		s.timeout, s.batcher.timeout = timeout, timeout
	}
}

func (m *model) endOutage() {
	if m.restore == nil {
		return
	}
	m.restore()
	m.restore = nil
	for r, s := range m.replicas {
		s.probeNow()
		if s.Degraded() {
			m.t.Errorf("replica %d is still degraded: %q", r, s.log.lines())
		}
		for account := range m.pending[r].day {
			m.redis.hour[account] += m.pending[r].hour[account]
			m.redis.day[account] += m.pending[r].day[account]
		}
		for account, calls := range m.pending[r].calls {
			m.redis.calls[account] = max(0, m.redis.calls[account]+calls)
		}
		m.pending[r] = newReferenceBudget(1, 1)
	}
	m.compare()
}

// endWindow ends the hour or the day of an account in Redis, and drops the cached refusals.
func (m *model) endWindow() {
	_, account, _ := m.pick()
	if m.restore != nil || m.redis.day[account]+m.redis.calls[account] == 0 {
		return
	}
	if m.redis.hour[account] = 0; m.random.IntN(2) == 0 {
		m.redis.day[account], m.redis.calls[account] = 0, 0
		m.counters.endDay(m.t, account)
	} else {
		m.counters.endHour(m.t, account)
	}
	for _, s := range m.replicas {
		s.refusals = newRefusalCache()
		_ = s.Usage(m.t.Context(), account)
	}
}

// compare checks that the counts in Redis are those of the reference.
func (m *model) compare() {
	for i := range modelAccounts {
		account := fmt.Sprint("account", i)
		usage := m.replicas[0].Usage(m.t.Context(), account)
		if usage.RequestsThisHour != m.redis.hour[account] || usage.RequestsToday != m.redis.day[account] || usage.CallsToday != m.redis.calls[account] {
			m.t.Errorf("%s has %+v, want %d, %d and %d", account, usage, m.redis.hour[account], m.redis.day[account], m.redis.calls[account])
		}
	}
}
