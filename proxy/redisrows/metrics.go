package redisrows

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/redisinfo"
)

// metrics are what a Store knows about Redis. A value that a server does not report is absent.
type metrics struct {
	bytes, bound                     prometheus.Gauge
	evictedForAccount, evictedForAll prometheus.Counter
	refused                          prometheus.Counter

	memory, limit, evictedKeys *prometheus.GaugeVec // by server: counters, rows
	policyOK                   *prometheus.GaugeVec // by policy

	all []prometheus.Collector
}

func newMetrics() *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "sara_redis_" + name, Help: help})
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sara_redis_" + name, Help: help}, []string{label})
	}
	evicted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_redis_rows_evicted_total", Help: "Cached rows in Redis that this replica evicted, by the bound that they were beyond.",
	}, []string{"bound"})
	m := &metrics{
		bytes:             gauge("rows_bytes", "Bytes of cached rows in Redis, of all replicas, as of this replica's last write or look."),
		bound:             gauge("rows_limit_bytes", "Bound of the cached rows in Redis now; 0 while Redis is nearly full without them."),
		evictedForAccount: evicted.WithLabelValues("account"), evictedForAll: evicted.WithLabelValues("all"),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_redis_rows_refused_total", Help: "Rows that were not written to Redis, because they had no place within the bounds.",
		}),
		memory:      gauges("memory_bytes", "Memory that counts against the limit, on all masters together.", "server"),
		limit:       gauges("max_memory_bytes", "Limit of the memory (maxmemory), on all masters together; 0: none.", "server"),
		evictedKeys: gauges("evicted_keys", "Keys that Redis itself has evicted since it started, on all masters together.", "server"),
		policyOK: gauges("eviction_policy_ok", "1 if the Redis of the counters never evicts keys, 0 if its policy may; "+
			"absent if it is unknown.", "policy"),
	}
	m.all = []prometheus.Collector{m.bytes, m.bound, evicted, m.refused, m.memory, m.limit, m.evictedKeys, m.policyOK}
	return m
}

// register registers the metrics, unless registry is nil.
func (m *metrics) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	for _, collector := range m.all {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("register the metrics of Redis: %w", err)
		}
	}
	return nil
}

// observe shows what servers report.
func (m *metrics) observe(name string, servers []redisinfo.Server) {
	show := func(gauge *prometheus.GaugeVec, sum int64, known bool) {
		if !known {
			gauge.DeleteLabelValues(name)
			return
		}
		gauge.WithLabelValues(name).Set(float64(sum))
	}
	for field, gauge := range map[string]*prometheus.GaugeVec{"maxmemory": m.limit, "evicted_keys": m.evictedKeys} {
		sum, known := redisinfo.Sum(servers, field)
		show(gauge, sum, known)
	}
	used, known := int64(0), len(servers) > 0
	for _, s := range servers {
		memory, _, isKnown := s.Memory()
		used, known = used+memory, known && isKnown
	}
	show(m.memory, used, known)
}

// observePolicy shows whether the counters are safe from eviction.
func (m *metrics) observePolicy(counters []redisinfo.Server) {
	m.policyOK.Reset()
	evicts, known := redisinfo.MayEvict(counters)
	if !known {
		return
	}
	policies := redisinfo.Policies(counters)
	value := 1.0
	if evicts {
		value = 0
	}
	m.policyOK.WithLabelValues(strings.Join(policies, ",")).Set(value)
}
