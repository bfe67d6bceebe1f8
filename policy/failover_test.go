package policy

import (
	"testing"
	"time"

	"sara/policy/redistest"
)

// Two replicas admit a day of 100 requests, while Redis fails over and the failed master comes back without its data.
func TestFailoverAdmitsTheDayExactly(t *testing.T) {
	t.Parallel()
	avoidHourEnd(t)
	group := redistest.Failover(t)
	master, promoted := group.Nodes[0], group.Nodes[1].Client()
	two := redisOptions{replicas: 2}
	replicas := []*testRedisBudget{startRedisBudget(t, group.URL(), two), startRedisBudget(t, group.URL(), two)}
	plan := generousPlan()
	plan.RequestsPerDay = 100
	admitted := 0
	admit := func(n int) {
		for _, replica := range replicas {
			more, _ := admitN(replica, n, "a", "k", plan)
			admitted += more
		}
	}
	admit(10)
	if err := master.Client().Do(t.Context(), "wait", 1, patience.Milliseconds()).Err(); err != nil { // until the replica has the counts
		t.Fatal(err)
	}
	master.Kill()
	admit(10)
	for _, replica := range replicas {
		if !replica.Degraded() {
			t.Error("a replica does not notice that the master is down")
		}
		for begun := time.Now(); replica.Degraded(); replica.probeNow() {
			if time.Since(begun) > patience {
				t.Fatalf("a replica has not found the new master: %q", replica.log.lines())
			}
		}
	}
	master.Start()
	admit(100)
	if admitted != 100 {
		t.Errorf("%d requests of 100 a day were admitted", admitted)
	}
	if n := promoted.HGet(t.Context(), accountKey("a"), "dn").Val(); n != "100" {
		t.Errorf("the new master counted %s", n)
	}
}
