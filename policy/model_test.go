package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"

	"sara/policy/redistest"
)

// reference is a limiter so simple that it is right at a glance: it stands for Redis, and for the share of each replica.
// Its buckets are not refilled, since the test is over before a token would be back.
type reference struct {
	share, liveShare int
	hour, day, calls map[string]int
	level            map[string]int // seconds until the bucket of a key or property is full again
}

func newReference(share, liveShare int) *reference {
	return &reference{share, liveShare, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
}

// admit returns the ceilings that refuse.
func (r *reference) admit(account, key string, p Plan) (refusing []Ceiling) {
	cost := 60 / divide(p.RequestsPerMinutePerKey, r.share)
	if r.level[key]+cost > 60 {
		refusing = append(refusing, KeyMinute)
	}
	if r.hour[account] >= divide(p.RequestsPerHour, r.share) {
		refusing = append(refusing, AccountHour)
	}
	if r.day[account] >= divide(p.RequestsPerDay, r.share) {
		refusing = append(refusing, AccountDay)
	}
	if len(refusing) == 0 {
		r.level[key] += cost
		r.hour[account]++
		r.day[account]++
	}
	return refusing
}

func (r *reference) charge(account, property string, n int, p Plan) (refusing []Ceiling) {
	cost := n * 60 / divide(p.LiveCallsPerMinutePerProperty, r.liveShare)
	if r.level[property]+cost > 60 {
		refusing = append(refusing, PropertyMinute)
	}
	if r.calls[account]+n > divide(p.SearchConsoleCallsPerDay, r.liveShare) {
		refusing = append(refusing, AccountCalls)
	}
	if len(refusing) == 0 {
		r.level[property] += cost
		r.calls[account] += n
	}
	return refusing
}

// model is the counters under test beside their reference.
type model struct {
	t        *testing.T
	random   *rand.Rand
	server   *redistest.Server
	counters *counters
	replicas []*testShared
	redis    *reference
	local    []*reference
	pending  []*reference // what of local is not in Redis yet
	plans    []Plan
	away     func() // ends the outage, nil when there is none
}

const (
	modelAccounts = 4
	modelReplicas = 3
)

func TestCountersAgreeWithAReferenceWhateverHappens(t *testing.T) {
	awayFromTheHour(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("repeat with SEED=%d", seed)
	server := redistest.Single(t)
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), server: server, redis: newReference(1, 1), counters: &counters{}, plans: []Plan{
		{RequestsPerMinutePerKey: 10, RequestsPerHour: 12, RequestsPerDay: 30, SearchConsoleCallsPerDay: 20, LiveCallsPerMinutePerProperty: 10},
		{RequestsPerMinutePerKey: 5, RequestsPerHour: 9, RequestsPerDay: 18, SearchConsoleCallsPerDay: 9, LiveCallsPerMinutePerProperty: 10},
	}}
	over := sharedOver(t, server.URL(), server.Client())
	m.counters.counts, m.counters.hourEnds, m.counters.dayEnds = over.counts, over.hourEnds, over.dayEnds
	for range modelReplicas {
		m.replicas = append(m.replicas, startShared(t, server.URL(), sharedOptions{patient: true, replicas: modelReplicas}))
		m.local = append(m.local, newReference(modelReplicas, 2*modelReplicas))
		m.pending = append(m.pending, newReference(1, 1))
	}
	// A token of a key comes back after six seconds.
	for step, begun := 0, time.Now(); step < 1500 && time.Since(begun) < 3*time.Second; step++ {
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
		m.giveBack()
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

func (m *model) giveBack() {
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

// decider is who has just decided for a replica.
func (m *model) decider(r int) *reference {
	if m.replicas[r].Degraded() {
		return m.local[r]
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
	case m.away != nil:
	case m.random.IntN(2) == 0:
		m.server.Stop()
		m.away = m.server.Start
	default:
		m.server.Freeze()
		m.away = m.server.Thaw
	}
}

func (m *model) endOutage() {
	if m.away == nil {
		return
	}
	m.away()
	m.away = nil
	for r, s := range m.replicas {
		s.look()
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
		m.pending[r] = newReference(1, 1)
	}
	m.compare()
}

// endWindow ends the hour or the day of an account in Redis, and with them what the replicas remember.
func (m *model) endWindow() {
	_, account, _ := m.pick()
	if m.away != nil || m.redis.day[account]+m.redis.calls[account] == 0 {
		return
	}
	if m.redis.hour[account] = 0; m.random.IntN(2) == 0 {
		m.redis.day[account], m.redis.calls[account] = 0, 0
		m.counters.dayEnds(m.t, account)
	} else {
		m.counters.hourEnds(m.t, account)
	}
	for _, s := range m.replicas {
		s.refusals.(*otter.Cache[refusalKey, cachedRefusal]).InvalidateAll()
		_ = s.Usage(m.t.Context(), account)
	}
}

// compare looks whether Redis has what the reference has.
func (m *model) compare() {
	for i := range modelAccounts {
		account := fmt.Sprint("account", i)
		usage := m.replicas[0].Usage(m.t.Context(), account)
		if usage.RequestsThisHour != m.redis.hour[account] || usage.RequestsToday != m.redis.day[account] || usage.CallsToday != m.redis.calls[account] {
			m.t.Errorf("%s has %+v, want %d, %d and %d", account, usage, m.redis.hour[account], m.redis.day[account], m.redis.calls[account])
		}
	}
}
