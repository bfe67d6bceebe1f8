package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// damages are values that are no counts.
var damages = []string{"nan", "-nan", "inf", "-inf", "-5", "-0.5", "1.5", "abc", "", " ", "1e300", "99999999999999999999", "0x7fffffffffffff"}

// A damagedHash is an account with six requests and six calls of one replica, which knows them.
type damagedHash struct {
	*testRedisBudget
	control     redisconn.Client
	id, hashKey string
	plan        Plan
}

func newDamagedHash(t *testing.T, s *testRedisBudget, control redisconn.Client, id string) *damagedHash {
	t.Helper()
	d := &damagedHash{s, control, id, accountKey(id), Plan{APIAccess: true, RequestsPerMinutePerKey: 1000, RequestsPerHour: 10, RequestsPerDay: 10,
		SearchConsoleCallsPerDay: 10, LiveCallsPerMinutePerProperty: 1000}}
	if n := d.admitAll(t, 6); n != 6 {
		t.Fatalf("admitted %d of 6 requests", n)
	}
	if n := d.chargeAll(t, 6); n != 6 {
		t.Fatalf("charged %d of 6 calls", n)
	}
	return d
}

// admitAll returns how many of some requests are admitted.
func (d *damagedHash) admitAll(t *testing.T, requests int) (admitted int) {
	t.Helper()
	for range requests {
		_, refusal := d.Admit(d.id, "key", d.plan)
		if refusal == nil {
			admitted++
		} else if refusal.RetryAfter <= 0 || refusal.RetryAfter > 24*time.Hour {
			t.Errorf("%s: refused for %v", d.id, refusal.RetryAfter)
		}
	}
	return admitted
}

func (d *damagedHash) chargeAll(t *testing.T, calls int) (charged int) {
	t.Helper()
	for range calls {
		if d.ChargeLiveCalls(d.id, d.id, 1, d.plan) == nil {
			charged++
		}
	}
	return charged
}

// Whatever a field of an account's hash is changed to that is no count, the replica restores what it has admitted: no limit is
// lifted, none is reached too early, and Redis stays in use. A field that is taken out may count requests twice, until the day ends.
func TestDamagedHashLiftsNoLimit(t *testing.T) {
	t.Parallel()
	avoidHourEnd(t)
	server := redistest.Single(t)
	control := server.Client()
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	for _, field := range []string{"h", "hn", "d", "dn", "cn", "b:" + s.replica, "c:" + s.replica, "r:" + s.replica} {
		for _, value := range damages {
			t.Run(fmt.Sprintf("%s is %q", field, value), func(t *testing.T) {
				d := newDamagedHash(t, s, control, t.Name())
				if err := control.HSet(t.Context(), d.hashKey, field, value).Err(); err != nil {
					t.Fatal(err)
				}
				// c: and r: are read only when calls are charged.
				if n := d.chargeAll(t, 8); n != 4 {
					t.Errorf("%d of 4 calls that were left are charged", n)
				}
				if n := d.admitAll(t, 8); n != 4 {
					t.Errorf("%d of 4 requests that were left are admitted", n)
				}
				if got := control.HGet(t.Context(), d.hashKey, field).Val(); got == value {
					t.Error("the value is not repaired")
				}
			})
		}
		t.Run(field+" is missing", func(t *testing.T) {
			d := newDamagedHash(t, s, control, t.Name())
			control.HDel(t.Context(), d.hashKey, field)
			requests, calls := d.admitAll(t, 8), d.chargeAll(t, 8)
			if requests > 4 || calls > 4 || len(field) <= 2 && requests+calls != 8 {
				t.Errorf("%d requests and %d calls are admitted, of 4 each", requests, calls)
			}
		})
	}
	t.Run("another type", func(t *testing.T) {
		d := newDamagedHash(t, s, control, t.Name())
		control.Set(t.Context(), d.hashKey, "x", 0)
		if requests, calls := d.admitAll(t, 8), d.chargeAll(t, 8); requests != 4 || calls != 4 {
			t.Errorf("%d requests and %d calls are admitted, of 4 each", requests, calls)
		}
	})
	if s.Degraded() {
		t.Error("Redis is not used any more")
	}
}

// What replicas keep in the hash only to restore counts does no harm either.
func TestDamagedMarksAreIgnoredByRestores(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	control := server.Client()
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	for _, field := range []string{"w:h", "w:d", "o:h", "o:d", "o:c", "b:another", "m:key"} {
		for _, value := range damages {
			d := newDamagedHash(t, s, control, field+" "+value)
			control.HSet(t.Context(), d.hashKey, field, value, "dn", "lost")
			d.plan.RequestsPerMinutePerKey = 1_000_000 // a drained bucket has room at once
			if n := d.chargeAll(t, 8); n != 4 {
				t.Errorf("%s: %d of 4 calls that were left are charged", d.id, n)
			}
			if s.Degraded() {
				t.Fatalf("%s: Redis is not used any more", d.id)
			}
		}
	}
}

// A damaged bucket of a key is a drained one: it refuses, for a minute at most, and then works.
func TestDamagedBucketIsDrained(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	for _, value := range damages {
		d := newDamagedHash(t, s, control, "account "+value)
		d.plan.RequestsPerMinutePerKey = 1
		key := "key " + value
		control.HSet(t.Context(), d.hashKey, "m:"+key, value)
		_, refusal := d.Admit(d.id, key, d.plan)
		if refusal == nil || refusal.Ceiling != KeyMinute || refusal.RetryAfter > time.Minute {
			t.Errorf("%q: the refusal is %+v", value, refusal)
		}
		full, err := control.HGet(t.Context(), d.hashKey, "m:"+key).Int64()
		if left := time.Until(time.UnixMicro(full)); err != nil || left > 2*time.Minute {
			t.Errorf("%q: the bucket is full in %v, %v", value, left, err)
		}

		if slices.Contains([]string{"1.5", "-5", "-0.5", "-inf"}, value) { // a time in the past: the bucket is full, as one that expired
			continue
		}
		property := "property " + value
		control.Set(t.Context(), "rate:"+liveKey(property), value, 0)
		d.plan.LiveCallsPerMinutePerProperty = 2
		refusal = d.ChargeLiveCalls(d.id, property, 2, d.plan)
		if refusal == nil || refusal.Ceiling != PropertyMinute || refusal.RetryAfter > time.Minute {
			t.Errorf("%q: the refusal of the property is %+v", value, refusal)
		}
		if left := control.TTL(t.Context(), "rate:"+liveKey(property)).Val(); left <= 0 || left > 2*time.Minute {
			t.Errorf("%q: the bucket of the property expires in %v", value, left)
		}
	}
	control.LPush(t.Context(), "rate:"+liveKey("of a list"), "x")
	d := newDamagedHash(t, s, control, "list")
	d.plan.LiveCallsPerMinutePerProperty = 2
	if refusal := d.ChargeLiveCalls("list", "of a list", 2, d.plan); refusal == nil || refusal.RetryAfter > time.Minute || s.Degraded() {
		t.Errorf("a bucket of another type: %+v, degraded %t", refusal, s.Degraded())
	}
}

// A Redis that refuses writes says nothing of a bucket, which must not be reset then.
func TestRefusedWritesAreNoDamage(t *testing.T) {
	for text, damaged := range map[string]bool{
		"ERR user_script:26: attempt to perform arithmetic on local 'tat' (a nil value) script: 5f, on @user_script:26.":               true,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 5f, on @user_script:18.":                            true,
		"OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:44.":                                      false,
		"READONLY You can't write against a read only replica. script: 5f, on @user_script:44.":                                        false,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. script: 5f, on @user_script": false,
		"ERR max number of clients reached": false,
	} {
		if isDamaged(nil, errors.New(text)) != damaged {
			t.Errorf("%q counts as a damaged bucket: %t", text, !damaged)
		}
	}
}

// On the first request of a day, what is damaged among the old marks does not end the script.
func TestDamagedMarksAreSwept(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	for _, value := range damages {
		id := "account " + value
		control.HSet(t.Context(), accountKey(id), "h", 1, "hn", 0, "d", 1, "dn", 0, "cn", 0, "b:old", value, "w:d", value, "m:old", value)
		if _, refusal := s.Admit(id, "key", Plan{APIAccess: true, RequestsPerMinutePerKey: 10, RequestsPerHour: 10, RequestsPerDay: 10}); refusal != nil {
			t.Errorf("%q: %+v", value, refusal)
		}
		if left := control.HExists(t.Context(), accountKey(id), "b:old").Val(); left || s.Degraded() {
			t.Errorf("%q: the mark is there: %t; degraded: %t", value, left, s.Degraded())
		}
	}
}

func TestDamagedInspectionsLiftNoLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	control := server.Client()
	q := openInspections(t, server.URL(), InspectionLimits{PerDay: 10, PerMinute: 6000})
	take := func(site string) (granted bool, wait time.Duration) {
		granted, wait, err := q.Take(context.Background(), site, 20_000)
		if err != nil {
			t.Fatalf("%s: %v", site, err)
		}
		return granted, wait
	}
	for i, value := range append(damages, "another type") {
		for which, name := range []string{"minute", "day"} {
			site := fmt.Sprintf("%s %d", name, i)
			for range 6 {
				take(site)
			}
			key := inspectionKeys(site, 20_000)[which]
			if control.Set(t.Context(), key, value, 0); value == "another type" {
				control.Del(t.Context(), key)
				control.LPush(t.Context(), key, "x")
			}
			granted := 0
			for range 1000 {
				ok, wait := take(site)
				if ok {
					granted++
				}
				if !ok && wait == 0 { // the day is used up
					break
				}
				if wait > time.Minute {
					t.Fatalf("%s of %q: the wait is %v", name, value, wait)
				}
			}
			if granted > 4 || name == "day" && granted != 4 {
				t.Errorf("%s of %q: %d of 4 that were left are granted", name, value, granted)
			}
			if got, err := control.Get(t.Context(), key).Int64(); err != nil && name == "day" {
				t.Errorf("%s of %q: not repaired: %d, %v", name, value, got, err)
			}
		}
	}
}

// Damage among the heartbeats neither keeps Redis from being used, nor counts a replica that is not there for ever.
func TestDamagedHeartbeats(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	m, now := &members{most: 1}, time.Now()
	beat := func(step string, want int) {
		t.Helper()
		now = now.Add(memberLifetime)
		if _, err := m.beat(t.Context(), control, "replica", now); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		if n := m.size(); n != want {
			t.Errorf("%s: %d replicas", step, n)
		}
	}
	control.ZAdd(t.Context(), membersKey, redis.Z{Score: 1e300, Member: "a"}, redis.Z{Score: -1e300, Member: "b"})
	beat("no time", 1)
	beat("no time, later", 1)
	control.Set(t.Context(), membersKey, "x", 0)
	beat("another type", 1)
	beat("after another type", 1)
	if n := control.ZCard(t.Context(), membersKey).Val(); n != 1 {
		t.Errorf("%d heartbeats are kept", n)
	}
}
