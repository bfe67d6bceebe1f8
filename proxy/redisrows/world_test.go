package redisrows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/redisconn"
)

const lifetime = 24 * time.Hour

// newStore returns a store with a registry of its own.
func newStore(t *testing.T, c Config) (*Store, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	c.Lifetime, c.Registry = lifetime, registry
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, registry
}

// rowKey returns the key of a row of the n-th property.
func rowKey(n int) string { return fmt.Sprintf("sara:c:{property-%d}:%016x", n, n) }

// put publishes a row of an account, which must not fail.
func (s *Store) put(t *testing.T, account, key string, size int) {
	t.Helper()
	if err := s.Publish(t.Context(), rowOf(account, key, size)); err != nil {
		t.Fatal(err)
	}
}

func rowOf(account, key string, size int) *Outcome {
	return &Outcome{Key: key, Account: account, Value: []byte(strings.Repeat("x", size)), Lease: key + leaseSuffix, Token: "token",
		Channel: "events", Event: []byte("done"), Refused: []byte("refused")}
}

// present returns the rows that are in Redis.
func present(t *testing.T, client redisconn.Client, keys ...string) (found []string) {
	t.Helper()
	for _, key := range keys {
		n, err := client.Exists(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found = append(found, key)
		}
	}
	return found
}

func wantPresent(t *testing.T, client redisconn.Client, all []string, want ...string) {
	t.Helper()
	if got := present(t, client, all...); !slices.Equal(got, want) {
		t.Errorf("Redis has %v, want %v", got, want)
	}
}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = rowKey(i)
	}
	return all
}

// held returns what the index counts.
func (s *Store) sums(t *testing.T) map[string]string {
	t.Helper()
	sums, err := s.config.Rows.HGetAll(t.Context(), indexKeys()[2]).Result()
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// value returns a metric, with its label if it has one; absent is -1.
func value(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := m.GetLabel()
			if family.GetName() == "sara_redis_"+name && (label == "" || len(labels) == 1 && labels[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}
