package policy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// testUsageReads reads the usage of more ids than one batch holds, three of which have any.
func testUsageReads(t *testing.T, url string, control redisconn.Client) {
	ids := make([]string, 2*usageBatch+1)
	for i := range ids {
		ids[i] = fmt.Sprint("id-", i)
	}
	counter, plan, used := redisBudgets(t, url, control).first(), generousPlan(), []string{ids[0], ids[usageBatch], ids[2*usageBatch]}
	plan.LiveCallsPerMinutePerProperty = 10
	for _, id := range used {
		if _, refusal := counter.Admit(id, "key", plan); refusal != nil {
			t.Fatal(refusal)
		}
		if refusal := counter.ChargeLiveCalls(id, id, 9, plan); refusal != nil {
			t.Fatal(refusal)
		}
	}
	inspections := openInspections(t, url, InspectionLimits{PerDay: 5})
	inspections.mustTake(t, used[1], 20_000)

	for range 2 {
		now, err := control.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		counts, err := UsageOfAccounts(t.Context(), control, ids, now)
		if err != nil || len(counts) != len(used) {
			t.Fatalf("accounts used %+v (%v)", counts, err)
		}
		for i, c := range counts {
			if c.AccountID != used[i] || c.InDay != 1 || c.Calls != 9 {
				t.Errorf("account %s used %+v", used[i], c)
			}
		}
		taken, err := UsageOfInspections(t.Context(), control, ids, 20_000)
		if err != nil || !reflect.DeepEqual(taken, map[string]int{used[1]: 1}) {
			t.Errorf("inspections: %v (%v)", taken, err)
		}
		live, err := UsageOfLiveCalls(t.Context(), control, ids)
		for _, id := range used {
			if part := live[id]; err != nil || len(live) != len(used) || part <= 0.5 || part > 0.95 {
				t.Errorf("used fractions %v (%v), want 0.9 of %s", live, err, id)
			}
		}
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	if counts, err := UsageOfAccounts(t.Context(), control, ids, tomorrow); err != nil || len(counts) > 0 {
		t.Errorf("tomorrow's usage is %+v (%v)", counts, err)
	}
}

func TestUsageReadsFailWithoutRedis(t *testing.T) {
	client, err := redisconn.Open("redis://127.0.0.1:1", redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := UsageOfAccounts(t.Context(), client, []string{"a"}, time.Now()); err == nil {
		t.Error("counts without Redis")
	}
	if _, err := UsageOfInspections(t.Context(), client, []string{"a"}, 1); err == nil {
		t.Error("inspections without Redis")
	}
	if _, err := UsageOfLiveCalls(t.Context(), client, []string{"a"}); err == nil {
		t.Error("live calls without Redis")
	}
}

func TestUsageReadsNameWhatIsDamaged(t *testing.T) {
	control := redistest.Single(t).Client()
	control.HSet(t.Context(), accountKey("b"), "hn", "abc")
	control.Set(t.Context(), accountKey("c"), "another type", 0)
	control.Set(t.Context(), inspectionKeys("site", 1)[1], "abc", 0)
	_, damaged := UsageOfAccounts(t.Context(), control, []string{"a", "b"}, time.Now())
	_, foreign := UsageOfAccounts(t.Context(), control, []string{"a", "c"}, time.Now())
	_, inspections := UsageOfInspections(t.Context(), control, []string{"a", "site"}, 1)
	for want, err := range map[string]error{"2 accounts: b: ": damaged, "2 accounts: c: WRONGTYPE": foreign, "2 sites: site: ": inspections} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
