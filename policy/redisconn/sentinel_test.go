package redisconn_test

import (
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// A machine that is down often has both the master and the sentinel that the client has asked last.
func TestAnotherSentinelIsAskedWhileOneDoesNotAnswer(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinels(t)
	known, others := group.Sentinels[0], group.Sentinels[1:]
	for _, other := range others {
		other.Freeze()
	}
	client, err := redisconn.Open(group.URL(), redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	write := func(when string) {
		t.Helper()
		const patience = 5 * time.Second
		for begun := time.Now(); ; {
			err := client.Set(t.Context(), "k", "v", 0).Err()
			if err == nil {
				return
			}
			if time.Since(begun) > patience {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	write("while one sentinel answers")
	for _, other := range others {
		other.Thaw()
	}
	known.Freeze()
	if err := group.Nodes[0].Client().ClientKillByFilter(t.Context(), "type", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	write("while only the others answer")
}
