package cache

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of a Cache.
type metrics struct {
	memory, shared, miss, bypass    prometheus.Counter // lookups
	fillOK, fillFailed, fillRefused prometheus.Counter
	awaitedProcess, awaitedReplica  prometheus.Counter
	revalidating, failing           prometheus.Counter // stale rows returned
	version, torn, future           prometheus.Counter // values in Redis discarded
	notAuthentic, unknownKey        prometheus.Counter // values in Redis that cannot be decrypted
	redisErrors, widened            prometheus.Counter
}

// newMetrics registers the metrics, unless registry is nil.
func newMetrics(registry prometheus.Registerer, m *memory) (*metrics, error) {
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sara_cache_" + name, Help: help}, []string{label})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sara_cache_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sara_cache_" + name, Help: help}, value)
	}
	lookups := vector("lookups_total", "Lookups of rows and answers, by where they were found.", "result")
	fills := vector("fills_total", "Fills by an upstream call, by outcome.", "outcome")
	awaited := vector("awaited_total", "Requests coalesced into another fill, in this process or in another replica.", "who")
	stale := vector("stale_total", "Stale rows returned, while their refill runs or because it failed.", "refill")
	discarded := vector("discarded_total", "Values in Redis that were discarded, by reason.", "reason")
	all := &metrics{
		memory: lookups.WithLabelValues("memory"), shared: lookups.WithLabelValues("shared"),
		miss: lookups.WithLabelValues("miss"), bypass: lookups.WithLabelValues("bypass"),
		fillOK: fills.WithLabelValues("ok"), fillFailed: fills.WithLabelValues("failed"), fillRefused: fills.WithLabelValues("refused"),
		awaitedProcess: awaited.WithLabelValues("process"), awaitedReplica: awaited.WithLabelValues("replica"),
		revalidating: stale.WithLabelValues("revalidating"), failing: stale.WithLabelValues("failing"),
		version: discarded.WithLabelValues("version"), torn: discarded.WithLabelValues("torn"), future: discarded.WithLabelValues("future"),
		notAuthentic: discarded.WithLabelValues("not_authentic"), unknownKey: discarded.WithLabelValues("unknown_key"),
		widened: counter("calls_saved_by_widening_total", "Upstream calls saved because an earlier query was widened."),
	}
	var err error
	if all.redisErrors, err = RedisErrors(registry); err != nil || registry == nil {
		return all, err
	}
	for _, collector := range []prometheus.Collector{
		lookups, fills, awaited, stale, discarded, all.widened,
		gauge("memory_bytes", "Bytes of rows and answers in memory.", func() float64 { return float64(m.values.Weight()) }),
		gauge("memory_entries", "Entries and answers in memory.", func() float64 { return float64(m.values.Len()) }),
	} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register the cache metrics: %w", err)
		}
	}
	return all, nil
}

// RedisErrors returns the counter of Redis steps that failed or timed out, which it registers on first use; nil: it is not
// exported. The Cache counts there, and so do other packages that share upstream answers over Redis.
func RedisErrors(registry prometheus.Registerer) (prometheus.Counter, error) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sara_cache_redis_errors_total", Help: "Redis steps, of the cache and of cooldowns, that failed or timed out.",
	})
	if registry == nil {
		return counter, nil
	}
	err := registry.Register(counter)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if counter, ok := registered.ExistingCollector.(prometheus.Counter); ok {
			return counter, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the cache metrics: %w", err)
	}
	return counter, nil
}
