package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sara/policy/redistest"
)

// A Redis that refuses to count because its memory is full is asked again after memory was freed: the counts stay in Redis.
func TestFullRedisIsRelievedAndAskedAgain(t *testing.T) {
	t.Parallel()
	avoidHourEnd(t)
	server := redistest.Single(t, "--maxmemory-policy", "noeviction")
	client := server.Client()
	set := func(megabytes int) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "maxmemory", fmt.Sprintf("%dmb", megabytes)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	fill := func() { // with 8 MiB of what can be deleted, where 4 MiB fit
		t.Helper()
		set(0)
		for n := range 512 { // in small pieces: the buffer of a large one would stay
			if err := client.HSet(t.Context(), "rows", fmt.Sprint(n), strings.Repeat("x", 16<<10)).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set(4)
	}
	relieved, canRelieve := 0, true
	b := startRedisBudget(t, server.URL(), redisOptions{patient: true, relieve: func(ctx context.Context) {
		relieved++
		if canRelieve {
			if err := client.Del(ctx, "rows").Err(); err != nil {
				t.Error(err)
			}
		}
	}})
	plan := Plan{RequestsPerMinutePerKey: 100, RequestsPerHour: 100, RequestsPerDay: 2, SearchConsoleCallsPerDay: 10, LiveCallsPerMinutePerProperty: 10}
	fill()
	if usage, refusal := b.Admit("a", "key", plan); refusal != nil || usage.RequestsToday != 1 || relieved != 1 {
		t.Errorf("admitted with %+v, %+v after %d times", usage, refusal, relieved)
	}
	fill()
	if refusal := b.ChargeLiveCalls("another account", "property", 1, plan); refusal != nil || relieved != 2 {
		t.Errorf("live calls are refused: %+v, after %d times", refusal, relieved)
	}
	if b.Degraded() {
		t.Fatal("a Redis with freed memory counts as down")
	}
	if n := client.HGet(t.Context(), accountKey("a"), "dn").Val(); n != "1" {
		t.Errorf("Redis counted %s requests", n)
	}
	canRelieve = false
	fill()
	if _, refusal := b.Admit("a third account", "key 3", plan); refusal != nil || !b.Degraded() {
		t.Errorf("a Redis that stays full: degraded %v, refusal %+v", b.Degraded(), refusal)
	}
}
