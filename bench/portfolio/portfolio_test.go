package main

import (
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/saratest"
	"sara/policy"
)

// A short form: nine sites. Requests and calls are counts, which do not depend on the machine.
func TestComparison(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	o, err := parse([]string{"-properties=9", "-rows=2500", "-latency=0s", "-keys=2"})
	if err != nil {
		t.Fatal(err)
	}
	o.binary = saratest.Binary(t)
	c, err := compare(t.Context(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	// One list; 9, 18, one and 36 requests before; one, one, three and four after.
	before, after := total(c.before), total(c.after)
	if before.Requests != 65 || after.Requests != 9 {
		t.Errorf("%d requests before, %d after", before.Requests, after.Requests)
	}
	// A series a site in both ways, and the table: 1,001 rows before, after those and all of them.
	if before.Calls != 10 || after.Calls > 11 || after.Calls < 10 {
		t.Errorf("%d calls before, %d after", before.Calls, after.Calls)
	}
	if b, a := total(c.beforeInPlan), total(c.afterInPlan); b.Refused != "" || a.Refused != "" || a.Requests != after.Requests {
		t.Errorf("in the plan: %+v, %+v", b, a)
	}
	if text := c.String(); !strings.Contains(text, "| **all** | 65 | 10 |") {
		t.Errorf("the report:\n%s", text)
	}
}

func TestFinish(t *testing.T) {
	plan := policy.Plan{RequestsPerMinutePerKey: 2, RequestsPerHour: 10, RequestsPerDay: 15, SearchConsoleCallsPerDay: 4}
	eight := time.Date(2026, time.November, 23, 8, 0, 0, 0, time.UTC)
	repeat := func(property, n int) (requests []int) {
		for range n {
			requests = append(requests, property)
		}
		return requests
	}
	for _, test := range []struct {
		name     string
		requests []int
		after    time.Duration
		calls    int
	}{
		{"within the bucket", repeat(noneOfThem, 2), 0, 0},
		{"one every thirty seconds", repeat(noneOfThem, 4), time.Minute, 0},
		{"beyond the hour", repeat(noneOfThem, 11), time.Hour, 0},
		{"beyond the hour, on", repeat(noneOfThem, 14), time.Hour + time.Minute, 0},
		{"beyond the day", repeat(noneOfThem, 16), 16 * time.Hour, 0},
		{"copies", repeat(1, 4), time.Minute, 1},
		{"all", repeat(allOfThem, 2), 0, 3},
		{"calls of the day", []int{0, 1, 2, 3, 4}, 16 * time.Hour, 5},
		{"a copy expires", append(repeat(0, 10), 0), time.Hour, 2},
	} {
		n := 3
		if got := finish(plan, eight, n, test.requests); got.after != test.after || got.calls != test.calls {
			t.Errorf("%s: %+v, want %v and %d calls", test.name, got, test.after, test.calls)
		}
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, args := range []string{"-properties=0", "-keys=11", "-properties=1001", "-rows=0", "-latency=-1s"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}
