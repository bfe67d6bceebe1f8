package redisrows

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// longRow is the size of a row that does not pass through a script.
const longRow = inScript + 1

// rowFilled returns a row of a letter whose fill began some time ago.
func rowFilled(key, letter string, size int, age time.Duration) *Outcome {
	o := rowOf("a", key, size)
	o.Value, o.Age = []byte(strings.Repeat(letter, size)), age
	return o
}

// wantRow checks which row of a key is in Redis, with its expiry, and that nothing is left of another one.
func wantRow(t *testing.T, client redisconn.Client, key, letter string, age time.Duration) {
	t.Helper()
	value, err := client.Get(t.Context(), key).Result()
	if err != nil || !strings.HasPrefix(value, letter) {
		t.Fatalf("the row begins with %.1q, %v; want %s", value, err, letter)
	}
	if left := client.PTTL(t.Context(), key).Val(); left > lifetime-age || left < lifetime-age-time.Minute {
		t.Errorf("row %s expires in %v, want %v", letter, left, lifetime-age)
	}
	rest := client.Keys(t.Context(), key+":*").Val()
	if rest = slices.DeleteFunc(rest, func(key string) bool { return strings.HasSuffix(key, leaseSuffix) }); len(rest) > 0 {
		t.Errorf("%v is left", rest)
	}
}

// Fills may end in another order than they began: the row of the last one stays.
func TestNewerRowStays(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client := connect()
		events, stop := iter.Pull(redisconn.Subscribe(t.Context(), client, "events"))
		defer stop()
		if event, _ := events(); !event.Subscribed {
			t.Fatalf("the first event is %v", event)
		}
		for name, size := range map[string]int{"short": 1000, "long": longRow} {
			t.Run(name, func(t *testing.T) {
				s, registry := newStore(t, Config{Rows: client})
				key := rowKey(size)
				publish := func(o *Outcome) {
					t.Helper()
					if err := s.Publish(t.Context(), o); err != nil {
						t.Fatal(err)
					}
					if event, _ := events(); event.Payload != "done" {
						t.Errorf("the event is %v", event)
					}
				}
				publish(rowFilled(key, "b", size, 10*time.Minute))
				if err := client.Set(t.Context(), key+leaseSuffix, "token", time.Minute).Err(); err != nil {
					t.Fatal(err)
				}
				before := s.sums(t)["all"]
				publish(rowFilled(key, "a", size, 20*time.Minute))
				wantRow(t, client, key, "b", 10*time.Minute)
				wantPresent(t, client, []string{key + leaseSuffix})
				if after := s.sums(t)["all"]; after != before || value(t, registry, "rows_refused_total", "") != 0 {
					t.Errorf("the index had %s bytes, and has %s", before, after)
				}
				publish(rowFilled(key, "c", size, 5*time.Minute))
				wantRow(t, client, key, "c", 5*time.Minute)
			})
		}
	})
}

// If the clock of Redis was set back, the row in the index has a date that is yet to come. It does not stay until then.
func TestRowOfTheFutureIsReplaced(t *testing.T) {
	client := redistest.Single(t).Client()
	s, _ := newStore(t, Config{Rows: client})
	key := rowKey(1)
	s.put(t, "a", key, 1000)
	if err := client.ZAdd(t.Context(), indexKeys()[0], redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMicro()), Member: key}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), rowFilled(key, "b", 1000, 0)); err != nil {
		t.Fatal(err)
	}
	wantRow(t, client, key, "b", 0)
}

// With an access control list of an earlier version, rows are written as before: the last one stays.
func TestEarlierAccessControlList(t *testing.T) {
	server := redistest.Single(t)
	if err := server.Client().Do(t.Context(), "acl", "setuser", "sara", "on", "nopass", "~*", "&*", "+@all", "-rename", "-zscore").Err(); err != nil {
		t.Fatal(err)
	}
	client := redistest.Open(t, "redis://sara:x@"+server.Addr())
	s, _ := newStore(t, Config{Rows: client})
	for _, size := range []int{1000, longRow} {
		for _, letter := range []string{"b", "a"} {
			if err := s.Publish(t.Context(), rowFilled(rowKey(size), letter, size, time.Minute)); err != nil {
				t.Fatal(err)
			}
			wantRow(t, client, rowKey(size), letter, time.Minute)
		}
	}
}
