package trace

import (
	"net/url"
	"reflect"
	"slices"
	"testing"
)

func TestMachinesSendValidRequestsInOrder(t *testing.T) {
	c := config(8)
	c.Requests = 2000
	requests := GenerateMachines(c)
	if !reflect.DeepEqual(requests, GenerateMachines(c)) {
		t.Error("one seed generates two traces")
	}
	exported, again := map[int]bool{}, map[string]int{}
	for i, r := range requests {
		if i > 0 && r.At < requests[i-1].At {
			t.Fatalf("request %d is before the one before it", i)
		}
		if r.Property < 0 || r.Property >= c.Properties || c.Account(r.Property) != r.Account {
			t.Fatalf("impossible request: %+v", r)
		}
		parsed, err := url.Parse(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range parsed.Query() {
			if !slices.Contains(parameters(r.Endpoint), name) || name != "filters" && !validValue(c, r, name, values[0]) {
				t.Fatalf("%s: %s=%q is not allowed", r.URL(), name, values[0])
			}
		}
		checkReach(t, c, r)
		if r.Account == 0 && r.Endpoint == "devices" {
			exported[r.Property] = true
		}
		again[r.URL()]++
	}
	if len(exported) < c.owned(0) {
		t.Errorf("%d of %d properties are exported", len(exported), c.owned(0))
	}
	polled := 0
	for _, n := range again {
		if n >= 35 {
			polled++
		}
	}
	if polled < 3*12 {
		t.Errorf("%d URLs are polled", polled)
	}
}
