package policy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

const inspectedSite = "https://www.example.com/{shop}/"

// openInspections returns the quota as one process sees it, with a long timeout.
func openInspections(t *testing.T, url string, limits InspectionLimits) *Inspections {
	t.Helper()
	client, err := redisconn.Open(url, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return newInspections(client, limits, patience)
}

func (q *Inspections) mustTake(t *testing.T, site string, day int32) (bool, time.Duration) {
	t.Helper()
	granted, wait, err := q.Take(t.Context(), site, day)
	if err != nil {
		t.Fatal(err)
	}
	if granted && wait != 0 {
		t.Errorf("granted, and a wait of %v", wait)
	}
	return granted, wait
}

// testSharedInspections checks that processes share the quota of a site and a day exactly.
func testSharedInspections(t *testing.T, address string) {
	const perDay, processes, workers = 150, 3, 8
	var quotas []*Inspections
	for range processes {
		quotas = append(quotas, openInspections(t, address, InspectionLimits{PerDay: perDay, PerMinute: 100_000}))
	}
	var taken atomic.Int64
	var running sync.WaitGroup
	for _, q := range quotas {
		for range workers {
			running.Go(func() {
				for {
					granted, wait, err := q.Take(t.Context(), inspectedSite, 20_000)
					if granted {
						taken.Add(1)
					}
					if err != nil || wait != 0 {
						t.Errorf("wait %v, %v", wait, err)
					}
					if !granted {
						return
					}
				}
			})
		}
	}
	running.Wait()
	if n := taken.Load(); n != perDay {
		t.Errorf("%d processes took %d of %d inspections", processes, n, perDay)
	}
	for _, c := range []struct {
		site string
		day  int32
		want bool
	}{{inspectedSite, 20_000, false}, {inspectedSite, 20_001, true}, {inspectedSite, 20_000, false}, {"sc-domain:example.com", 20_000, true}} {
		if granted, wait := quotas[0].mustTake(t, c.site, c.day); granted != c.want || wait != 0 {
			t.Errorf("%s on day %d: %v, wait %v", c.site, c.day, granted, wait)
		}
	}
}

func TestInspectionIsTakenFromDayAndMinuteOrNeither(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	q := openInspections(t, server.URL(), InspectionLimits{PerDay: 3, PerMinute: 2})
	keys := inspectionKeys(inspectedSite, 7)
	counted := func() (string, string) {
		return control.Get(t.Context(), keys[0]).Val(), control.Get(t.Context(), keys[1]).Val()
	}
	if granted, _ := q.mustTake(t, inspectedSite, 7); !granted {
		t.Fatal("the first is refused")
	}
	full, used := counted()
	if granted, wait := q.mustTake(t, inspectedSite, 7); granted || wait <= 0 || wait > 31*time.Second {
		t.Errorf("the minute is used up: %v, wait %v", granted, wait)
	}
	if after, count := counted(); after != full || count != used || used != "1" {
		t.Errorf("what the minute refuses changes %s to %s and %s to %s", full, after, used, count)
	}
	if err := errors.Join(control.Set(t.Context(), keys[1], 3, 0).Err(), control.Del(t.Context(), keys[0]).Err()); err != nil {
		t.Fatal(err)
	}
	if granted, wait := q.mustTake(t, inspectedSite, 7); granted || wait != 0 {
		t.Errorf("the day is used up: %v, wait %v", granted, wait)
	}
	if bucket, count := counted(); bucket != "" || count != "3" {
		t.Errorf("what the day refuses changes the bucket to %q and the count to %s", bucket, count)
	}
}

func TestInspectionLimitsDefaultToGooglesQuota(t *testing.T) {
	server := redistest.Single(t)
	q := openInspections(t, server.URL(), InspectionLimits{})
	if err := server.Client().Set(t.Context(), inspectionKeys(inspectedSite, 7)[1], 1999, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if granted, _ := q.mustTake(t, inspectedSite, 7); !granted {
		t.Error("number 2,000 is refused")
	}
	if granted, wait := q.mustTake(t, inspectedSite, 7); granted || wait != 0 {
		t.Errorf("number 2,001: %v, wait %v", granted, wait)
	}
}

func TestInspectionCountsExpire(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	q := openInspections(t, server.URL(), InspectionLimits{})
	for range 2 {
		q.mustTake(t, inspectedSite, 7)
	}
	keys := inspectionKeys(inspectedSite, 7)
	minute, day := control.TTL(t.Context(), keys[0]).Val(), control.TTL(t.Context(), keys[1]).Val()
	if minute <= time.Minute || minute > 2*time.Minute || day <= 25*time.Hour || day > 48*time.Hour {
		t.Errorf("the bucket expires in %v, the day in %v", minute, day)
	}
	if n := control.DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("%d keys, want these two", n)
	}
}

func TestRedisClockSetBackDelaysInspectionsByOneIntervalAtMost(t *testing.T) {
	server := redistest.Single(t)
	q := openInspections(t, server.URL(), InspectionLimits{})
	future := time.Now().Add(time.Hour).UnixMicro()
	if err := server.Client().Set(t.Context(), inspectionKeys(inspectedSite, 7)[0], future, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if granted, wait := q.mustTake(t, inspectedSite, 7); granted || wait <= 0 || wait > q.interval {
		t.Errorf("%v, wait %v", granted, wait)
	}
}

func TestInspectionsFailWhileRedisIsDown(t *testing.T) {
	server := redistest.Single(t)
	client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	refused := func(name string, q *Inspections, ctx context.Context, want error) {
		t.Helper()
		if granted, wait, err := q.Take(ctx, inspectedSite, 7); granted || wait != 0 || err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, wait %v, %v", name, granted, wait, err)
		}
	}
	q := NewInspections(client, InspectionLimits{})
	server.Kill()
	refused("killed", q, t.Context(), nil)
	server.Start()
	patient := openInspections(t, server.URL(), InspectionLimits{})
	if granted, _ := patient.mustTake(t, inspectedSite, 7); !granted {
		t.Error("refused after Redis is back")
	}
	patient.timeout = 50 * time.Millisecond
	server.Freeze()
	refused("frozen", patient, t.Context(), nil)
	server.Thaw()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused("cancelled", patient, ended, context.Canceled)
}

// A virtualInspections runs the script at a time that the test sets.
type virtualInspections struct {
	*Inspections
	t   *testing.T
	now int64 // microseconds
}

// newVirtualInspections replaces TIME in the script by further arguments; the rest of the script is the production one.
func newVirtualInspections(t *testing.T, address string, limits InspectionLimits) *virtualInspections {
	t.Helper()
	const clock = "redis.call('TIME')"
	if strings.Count(inspectLua, clock) != 1 {
		t.Fatalf("the script does not call %s exactly once", clock)
	}
	v := &virtualInspections{openInspections(t, address, limits), t, 1_764_000_000_000_000}
	v.script = redis.NewScript(strings.Replace(inspectLua, clock, "{ARGV[5], ARGV[6]}", 1))
	return v
}

// take takes an inspection at the virtual time.
func (v *virtualInspections) take(site string) (granted bool, wait int64) {
	v.t.Helper()
	numbers, err := v.script.Run(v.t.Context(), v.scripts, inspectionKeys(site, 7), v.perDay, v.interval.Microseconds(), v.capacity,
		0, v.now/1e6, v.now%1e6).Int64Slice()
	if err != nil {
		v.t.Fatal(err)
	}
	return numbers[0] == 1, numbers[1]
}

func TestNoSlidingMinuteExceedsTheInspectionLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	random := rand.New(rand.NewPCG(1, 2))
	limits := []int{1, 2, 7, 60, 599, 600}
	if testing.Short() {
		limits = limits[:4]
	}
	for _, perMinute := range limits {
		v := newVirtualInspections(t, server.URL(), InspectionLimits{PerDay: 1_000_000, PerMinute: perMinute})
		site := strconv.Itoa(perMinute)
		var grants []int64
		end := v.now + 4*60e6
		for v.now < end {
			granted, wait := v.take(site)
			switch {
			case granted:
				grants = append(grants, v.now)
			case wait <= 0:
				t.Fatalf("limit %d: refused without a wait", perMinute)
			case random.IntN(8) > 0:
				if v.now += wait - 1; wait > 1 {
					if early, _ := v.take(site); early {
						t.Fatalf("limit %d: a token before the wait is over", perMinute)
					}
				}
				v.now++
			default:
				v.now += wait + random.Int64N(5e6) // lets the bucket fill up a little
			}
		}
		for first, most := 0, 0; first < len(grants); first++ {
			for most < len(grants) && grants[most] <= grants[first]+60e6 {
				most++
			}
			if n := most - first; n > perMinute {
				t.Fatalf("limit %d: %d inspections in the minute from %d", perMinute, n, grants[first])
			}
		}
		if least := 4 * perMinute * 6 / 10; len(grants) < least {
			t.Errorf("limit %d: %d inspections in four minutes, want at least %d", perMinute, len(grants), least)
		}
	}
}

func TestInspectionsUseNearlyTheWholeMinute(t *testing.T) {
	v := newVirtualInspections(t, redistest.Single(t).URL(), InspectionLimits{PerDay: 1_000_000})
	grants, end := 0, v.now+60e6
	for v.now < end {
		granted, wait := v.take("site")
		if granted {
			grants++
			continue
		}
		v.now += wait
		if granted, _ = v.take("site"); !granted {
			t.Fatal("no token after the wait")
		}
		grants++
	}
	if grants < InspectionsPerMinute*95/100 || grants > InspectionsPerMinute+1 {
		t.Errorf("%d inspections in a minute", grants)
	}
}

// Random histories of inspections by several processes, and of losses of their Redis: a flush, an older copy, the evicted count of the
// day. Never more is taken than the quota, and for each loss what the process that knows least has not seen of the day; and Redis ends
// with a count that lacks no more than that.
func TestInspectionsOfTheDaySurviveLosses(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	control := server.Client()
	const perDay, day = 60, 20_000
	key := inspectionKeys(inspectedSite, day)[1]
	for seed := range uint64(30) {
		if err := control.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(seed, 0))
		processes := make([]*Inspections, 1+random.IntN(3))
		for i := range processes {
			processes[i] = openInspections(t, server.URL(), InspectionLimits{PerDay: perDay, PerMinute: 1_000_000})
		}
		taken, bound, seen, older := 0, 0, make([]int, len(processes)), "0"
		for range 200 {
			switch dice := random.IntN(100); {
			case dice < 4:
				bound += taken - slices.Min(seen)
				switch random.IntN(3) {
				case 0:
					control.FlushAll(t.Context())
				case 1:
					control.Del(t.Context(), key)
				default:
					control.Set(t.Context(), key, older, 0)
				}
			case dice < 8:
				older = strconv.Itoa(max(0, taken-bound)) // no copy has more
			default:
				i := random.IntN(len(processes))
				if granted, _ := processes[i].mustTake(t, inspectedSite, day); granted {
					taken++
				}
				seen[i] = taken
			}
		}
		for i := range processes {
			if granted, _ := processes[i].mustTake(t, inspectedSite, day); granted {
				taken++
			}
		}
		counted, err := control.Get(t.Context(), key).Int()
		if err != nil {
			t.Fatal(err)
		}
		if taken > perDay+bound || counted < taken-bound {
			t.Errorf("seed %d: %d were taken of %d, with a bound of %d; Redis has counted %d", seed, taken, perDay, bound, counted)
		}
		if len(processes) == 1 && taken != perDay {
			t.Errorf("seed %d: one process took %d of %d", seed, taken, perDay)
		}
	}
}

// A lateScripter keeps one reply back until it is released.
type lateScripter struct {
	redisconn.Scripter
	late chan struct{} // nil: replies are not kept back
	made chan struct{} // closed once the script of the late reply has run
}

func (s *lateScripter) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	late := s.late
	s.late = nil
	reply := s.Scripter.EvalSha(ctx, sha, keys, args...)
	if late != nil {
		close(s.made)
		<-late
	}
	return reply
}

// Replies may arrive in another order than Redis has counted. The older one does not lower what is restored after a loss.
func TestLateReplyDoesNotLowerTheKnownCount(t *testing.T) {
	server := redistest.Single(t)
	q := openInspections(t, server.URL(), InspectionLimits{PerDay: 3, PerMinute: 100_000})
	q.mustTake(t, inspectedSite, 7) // loads the script
	late, made := make(chan struct{}), make(chan struct{})
	q.scripts = &lateScripter{q.scripts, late, made}
	var running sync.WaitGroup
	running.Go(func() {
		if granted, _, err := q.Take(t.Context(), inspectedSite, 7); !granted || err != nil {
			t.Errorf("the second: %v, %v", granted, err)
		}
	})
	<-made
	if granted, _ := q.mustTake(t, inspectedSite, 7); !granted {
		t.Error("the third is refused")
	}
	close(late)
	running.Wait()
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if granted, _ := q.mustTake(t, inspectedSite, 7); granted {
		t.Error("a fourth inspection of three is granted")
	}
}
