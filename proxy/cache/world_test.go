package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/proxy/redisrows"
	"sara/translate"
)

const ttl = 10 * time.Minute

// clock is a clock that only the test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.nanos.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

var (
	errUpstream = sharedError("the upstream is down") // shared by all waiters
	errBudget   = errors.New("the budget is spent")   // of one account only
)

// sharedError is an error that the ErrorCodec shares.
type sharedError string

func (e sharedError) Error() string { return string(e) }

type errorCodec struct{}

func (errorCodec) Encode(err error) ([]byte, bool) {
	var shared sharedError
	if errors.As(err, &shared) {
		return []byte(shared), true
	}
	return nil, false
}

func (errorCodec) Decode(data []byte) error { return sharedError(data) }

// replica is a Cache with its metrics.
type replica struct {
	*Cache
	registry *prometheus.Registry
}

// ringOf returns a keyring of keys that each repeat one byte, the current one first.
func ringOf(tb testing.TB, current byte, previous ...byte) *keyring.Keyring {
	tb.Helper()
	key := func(fill byte) []byte { return bytes.Repeat([]byte{fill}, keyring.KeySize) }
	var others [][]byte
	for _, fill := range previous {
		others = append(others, key(fill))
	}
	ring, err := keyring.New(key(current), others...)
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

// newReplica returns a Cache whose Redis timeouts suffice on a slow machine.
func newReplica(tb testing.TB, client redisconn.Client, clock *clock) *replica {
	tb.Helper()
	return newReplicaWithKeys(tb, client, clock, ringOf(tb, 1))
}

func newReplicaWithKeys(tb testing.TB, client redisconn.Client, clock *clock, keys *keyring.Keyring) *replica {
	tb.Helper()
	r := newHastyReplica(tb, client, clock, keys)
	if r.redis != nil {
		r.redis.limits = limitsFor(10 * time.Second)
	}
	return r
}

func newReplicaWithDefaults(tb testing.TB, client redisconn.Client, clock *clock) *replica {
	tb.Helper()
	return newHastyReplica(tb, client, clock, ringOf(tb, 1))
}

func newHastyReplica(tb testing.TB, client redisconn.Client, clock *clock, keys *keyring.Keyring) *replica {
	tb.Helper()
	r := &replica{registry: prometheus.NewRegistry()}
	config := Config{Bytes: 64 << 20, Keyring: keys, Errors: errorCodec{}, Now: clock.Now, Registry: r.registry}
	var err error
	if client != nil {
		if config.Rows, err = redisrows.New(redisrows.Config{Rows: client, Lifetime: MaxStale}); err != nil {
			tb.Fatal(err)
		}
	}
	if r.Cache, err = New(config); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// metric returns a counter or gauge, such as fills_total{ok}.
func (r *replica) metric(tb testing.TB, name, label string) float64 {
	tb.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "sara_cache_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); label == "" || len(labels) == 1 && labels[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	tb.Fatalf("there is no metric %s{%s}", name, label)
	return 0
}

// settle waits until all fills have finished and published.
func (r *replica) settle() { r.flights.running.Wait() }

// rowsOf returns n rows.
func rowsOf(tb testing.TB, n int) *translate.Rows {
	tb.Helper()
	var body strings.Builder
	body.WriteString(`{"responseAggregationType":"byProperty","rows":[`)
	for i := range n {
		if i > 0 {
			body.WriteByte(',')
		}
		clicks := n - i
		fmt.Fprintf(&body, `{"keys":["best running shoes %d"],"clicks":%d,"impressions":%d,"ctr":0.1,"position":%d.5}`, i*7919, clicks, clicks*10, i%90+1)
	}
	body.WriteString(`]}`)
	rows, err := translate.ReadRows(strings.NewReader(body.String()), translate.ByQuery)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

func narrow(site string) translate.Query {
	r := translate.DateRange{Start: translate.NewDate(2026, 10, 1), End: translate.NewDate(2026, 10, 31)}
	return translate.Query{Site: site, Dimension: translate.ByQuery, Range: r, RowLimit: translate.NarrowSample}
}

func wide(site string) translate.Query {
	q := narrow(site)
	q.RowLimit = translate.WideSample
	return q
}

// backend is an upstream that counts its calls.
type backend struct {
	calls atomic.Int64
	fill  func(ctx context.Context, n int64) (*translate.Rows, error) // n is the number of the call, from 1
}

func answering(rows *translate.Rows) *backend {
	return &backend{fill: func(context.Context, int64) (*translate.Rows, error) { return rows, nil }}
}

func failing(err error) *backend {
	return &backend{fill: func(context.Context, int64) (*translate.Rows, error) { return nil, err }}
}

// request returns a request that this backend fills.
func (s *backend) request(property string, q translate.Query) Request {
	return Request{PropertyID: property, AccountID: "account", Query: q, TTL: ttl, Fill: func(ctx context.Context) (*translate.Rows, error) {
		return s.fill(ctx, s.calls.Add(1))
	}}
}

func (s *backend) want(t *testing.T, n int64) {
	t.Helper()
	if got := s.calls.Load(); got != n {
		t.Errorf("%d upstream calls, want %d", got, n)
	}
}

// do calls Do and fails the test unless it finds fresh rows with the wanted status.
func (r *replica) do(t *testing.T, q Request, status Status) Found {
	t.Helper()
	found, err := r.Do(t.Context(), q)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	if found.Status != status || found.Stale {
		t.Errorf("found %v, stale %v, want %v", found.Status, found.Stale, status)
	}
	return found
}

// arriving is a context that calls back when Do begins to wait for a fill.
type arriving struct {
	context.Context
	once    *sync.Once
	arrived func()
}

func (a arriving) Done() <-chan struct{} {
	if pc, _, _, _ := runtime.Caller(1); strings.HasSuffix(runtime.FuncForPC(pc).Name(), ".await") {
		a.once.Do(a.arrived)
	}
	return a.Context.Done()
}

// concurrently makes n concurrent calls, spread over the replicas, and returns their results. Each call counts waiting down when
// it begins to wait for a fill.
func concurrently(t *testing.T, n int, waiting *sync.WaitGroup, q Request, replicas ...*replica) (all []Found, errs []error) {
	t.Helper()
	all, errs = make([]Found, n), make([]error, n)
	var ended sync.WaitGroup
	for i := range n {
		ended.Go(func() {
			ctx := arriving{t.Context(), new(sync.Once), waiting.Done}
			all[i], errs[i] = replicas[i%len(replicas)].Do(ctx, q)
		})
	}
	ended.Wait()
	return all, errs
}
