package redisrows

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
)

// Whatever the index is changed to, rows are written to it, and stay within their bounds.
func TestDamagedIndexStartsAgain(t *testing.T) {
	server := redistest.Single(t)
	client, all := server.Client(), keys(22)
	index := indexKeys()
	order, rows, sums := index[0], index[1], index[2]
	cases := map[string]func(){
		"the order of an account is of another type": func() {
			client.Del(t.Context(), order+":a")
			client.Set(t.Context(), order+":a", "x", 0)
		},
		"a row is from the future": func() { client.ZAdd(t.Context(), order, redis.Z{Score: 1e300, Member: all[0]}) },
		"an unknown row is first":  func() { client.ZAdd(t.Context(), order, redis.Z{Score: -1, Member: "x"}) },
	}
	for _, key := range index {
		cases[key+" is of another type"] = func() {
			client.Del(t.Context(), key)
			client.Set(t.Context(), key, "x", 0)
		}
		cases[key+" is missing"] = func() { client.Del(t.Context(), key) }
	}
	for _, value := range []string{"nan", "inf", "-5", "1.5", "abc", "", "1e300", "99999999999999999999"} {
		for _, field := range []string{"all", "of:a", "of:b"} {
			cases[fmt.Sprintf("%s is %q", field, value)] = func() { client.HSet(t.Context(), sums, field, value) }
		}
		cases[fmt.Sprintf("a row is %q", value)] = func() { client.HSet(t.Context(), rows, all[0], value) }
		cases[fmt.Sprintf("a row has %q bytes", value)] = func() { client.HSet(t.Context(), rows, all[0], value+" a") }
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			size := int(weigh(make([]byte, 1000)))
			s, _ := newStore(t, Config{Rows: client, Bytes: int64(8 * size)})
			s.put(t, "b", all[0], 1000)
			s.put(t, "a", all[1], 1000)
			damage()
			if err := s.Relieve(t.Context()); err != nil {
				t.Errorf("look: %v", err)
			}
			s.put(t, "a", all[1], 1000)
			for i, key := range all[2:] {
				s.put(t, strconv.Itoa(i), key, 1000)
			}
			if got := s.sums(t)["all"]; got != strconv.Itoa(8*size) {
				t.Errorf("the index has %s bytes, want that of 8 rows of %d", got, size)
			}
			if known := client.HLen(t.Context(), rows).Val(); known != 8 {
				t.Errorf("the index has %d rows, want 8", known)
			}
			wantPresent(t, client, all[len(all)-8:], all[len(all)-8:]...)
		})
	}
}
