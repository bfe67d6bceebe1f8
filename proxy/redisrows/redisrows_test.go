package redisrows

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// kb8 is the size of a value that weighs 8 KiB with its overhead.
const kb8 = 7<<10 - 1

func TestRowsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client := connect()
		s, registry := newStore(t, Config{Rows: client, Bytes: 4 * 4 * 8 << 10}) // sixteen rows, four of an account
		all := keys(40)
		for n := range 6 {
			s.put(t, "flood", all[n], kb8)
		}
		wantPresent(t, client, all, all[2:6]...) // its share
		s.put(t, "other", all[6], kb8)
		for n := 7; n < 20; n++ {
			s.put(t, fmt.Sprintf("account %d", n), all[n], kb8)
		}
		wantPresent(t, client, all, all[4:20]...) // the oldest of all made room
		s.put(t, "other", all[6], kb8)            // again: it takes the place of its older copy
		wantPresent(t, client, all, all[4:20]...)
		s.put(t, "other", all[20], 2*kb8)
		wantPresent(t, client, all, all[6:21]...)
		if evicted := [2]float64{value(t, registry, "rows_evicted_total", "account"),
			value(t, registry, "rows_evicted_total", "all")}; evicted != [2]float64{2, 4} {
			t.Errorf("counted %v evicted rows", evicted)
		}
		if got := s.sums(t)["all"]; got != fmt.Sprint(value(t, registry, "rows_bytes", "")) {
			t.Errorf("the index has %s bytes, the metric %v", got, value(t, registry, "rows_bytes", ""))
		}
	})
}

func TestRowThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client := connect()
		s, registry := newStore(t, Config{Rows: client, Bytes: 64 << 10})
		key := rowKey(1)
		next, stop := iter.Pull(redisconn.Subscribe(t.Context(), client, "events"))
		defer stop()
		if event, _ := next(); !event.Subscribed {
			t.Fatalf("the first event is %v", event)
		}
		for _, test := range []struct {
			size int
			want string
		}{{kb8, "done"}, {16 << 10, "refused"}} {
			if err := client.Set(t.Context(), key+leaseSuffix, "token", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			s.put(t, "a", key, test.size)
			if event, _ := next(); event.Payload != test.want {
				t.Errorf("%d bytes: the event is %v, want %s", test.size, event, test.want)
			}
			if left := present(t, client, key+leaseSuffix); left != nil {
				t.Error("the lease is not released")
			}
		}
		if n := value(t, registry, "rows_refused_total", ""); n != 1 {
			t.Errorf("counted %v refused rows", n)
		}
		if err := client.Set(t.Context(), key+leaseSuffix, "another token", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Publish(t.Context(), &Outcome{Key: key, Lease: key + leaseSuffix, Token: "token", Channel: "events",
			Event: []byte("failed")}); err != nil {
			t.Fatal(err)
		}
		wantPresent(t, client, []string{key, key + leaseSuffix}, key, key+leaseSuffix) // another replica's lease stays
	})
}

func TestExpiredRowsLeaveTheIndex(t *testing.T) {
	client := redistest.Single(t).Client()
	s, _ := newStore(t, Config{Rows: client})
	all := keys(3)
	for n, key := range all {
		s.put(t, fmt.Sprint("account ", n), key, kb8)
	}
	if left := client.TTL(t.Context(), all[0]).Val(); left <= lifetime-time.Minute || left > lifetime {
		t.Errorf("a row expires in %v", left)
	}
	for _, key := range all[:2] { // as if they had been written a day ago
		if err := client.ZAdd(t.Context(), indexKeys()[0], redis.Z{Score: float64(time.Now().Add(-lifetime).UnixMicro()), Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.put(t, "account 2", all[2], kb8)
	if sums := s.sums(t); len(sums) != 2 || sums["all"] != "8192" || sums["of:account 2"] != "8192" {
		t.Errorf("the index has %v", sums)
	}
	if n := client.HLen(t.Context(), indexKeys()[1]).Val(); n != 1 {
		t.Errorf("the index has %d rows", n)
	}
	for _, part := range append(indexKeys(), indexKeys()[0]+":account 2") {
		if left := client.TTL(t.Context(), part).Val(); left <= lifetime {
			t.Errorf("%s expires in %v, before its rows", part, left)
		}
	}
}

// Whatever part of the index is lost, new rows are written, and those in the index stay within the bounds.
func TestIndexRecoversFromLoss(t *testing.T) {
	client := redistest.Single(t).Client()
	for name, lose := range map[string][]string{
		"all": {indexKeys()[0], indexKeys()[1], indexKeys()[2]}, "order": indexKeys()[:1], "rows": indexKeys()[1:2], "sums": indexKeys()[2:],
		"account": {indexKeys()[0] + ":a", indexKeys()[0] + ":b"},
	} {
		t.Run(name, func(t *testing.T) {
			client.FlushDB(t.Context())
			s, _ := newStore(t, Config{Rows: client, Bytes: 64 << 10})
			all := keys(40)
			for n, key := range all[:20] {
				s.put(t, string("ab"[n%2]), key, 2<<10)
			}
			if err := client.Del(t.Context(), lose...).Err(); err != nil {
				t.Fatal(err)
			}
			for n, key := range all[20:] {
				s.put(t, string("ab"[n%2]), key, 2<<10)
			}
			if got := present(t, client, all[36:]...); len(got) != 4 {
				t.Errorf("of the newest rows Redis has %v", got)
			}
			if got := present(t, client, all[20:]...); len(got) > 10 {
				t.Errorf("Redis has %d new rows, for which there is no room", len(got))
			}
		})
	}
}

// The index and the rows agree after any sequence of writes, with a model as the reference.
func TestIndexAgreesWithItsRows(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client := connect()
		s, _ := newStore(t, Config{Rows: client, Bytes: 256 << 10})
		random := rand.New(rand.NewPCG(1, 2))
		all := keys(60)
		for range 400 {
			account := fmt.Sprint(random.IntN(5))
			o := rowOf(account, all[random.IntN(len(all))], 0)
			o.Value, o.Age = []byte(strings.Repeat(account, 1+random.IntN(20<<10))), time.Duration(random.IntN(2)*random.IntN(1e9))
			if err := s.Publish(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]int64{}
		for _, key := range present(t, client, all...) {
			value, err := client.Get(t.Context(), key).Bytes()
			if err != nil {
				t.Fatal(err)
			}
			want["all"] += weigh(value)
			want["of:"+string(value[:1])] += weigh(value)
		}
		sums := s.sums(t)
		for sum, bytes := range want {
			if sums[sum] != strconv.FormatInt(bytes, 10) {
				t.Errorf("the index has %s bytes for %s, the rows %d", sums[sum], sum, bytes)
			}
			if bound := map[bool]int64{true: 256 << 10, false: 64 << 10}[sum == "all"]; bytes > bound {
				t.Errorf("%s has %d bytes", sum, bytes)
			}
		}
		if len(sums) != len(want) {
			t.Errorf("the index has %v, the rows %v", sums, want)
		}
	})
}

// What a row weighs is at least what it takes in Redis, and not much more.
func TestRowsWeighWhatTheyTake(t *testing.T) {
	t.Parallel()
	const account = "4f1c2a9e-7a51-4b8e-9b1f-0123456789ab"
	for _, size := range []int{100, 1000, 5000, 20_000, 70_000} {
		client := redistest.Single(t).Client()
		s, _ := newStore(t, Config{Rows: client, Bytes: 1 << 40})
		used := func() int64 {
			var bytes int64
			if _, err := fmt.Sscanf(client.Info(t.Context(), "memory").Val(), "# Memory\r\nused_memory:%d", &bytes); err != nil {
				t.Fatal(err)
			}
			return bytes
		}
		n := min(2000, 20<<20/size)
		s.put(t, account, fmt.Sprintf("sara:c:{%s}:%016x", account, n), size) // the scripts are loaded
		before := used()
		for i := range n {
			s.put(t, account, fmt.Sprintf("sara:c:{%s}:%016x", account, i), size)
		}
		took, weighed := (used()-before)/int64(n), weigh(make([]byte, size))
		t.Logf("a row of %d bytes takes %d, and weighs %d", size, took, weighed)
		if weighed < took || weighed > took+took/4+rowOverhead/2 {
			t.Errorf("a row of %d bytes takes %d, but weighs %d", size, took, weighed)
		}
	}
}
