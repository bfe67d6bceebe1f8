package proxy

import (
	"sync"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/policy/keyring"
	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/proxy/redisrows"
	"sara/proxy/upstream"
	"sara/translate"
)

// ReportsConfig says where the figures of reports come from. Upstream and History are required.
type ReportsConfig struct {
	Upstream *upstream.Gateway
	History  History

	// HedgeDelay is the longest time that an unfiltered request waits for the upstream before stored figures answer it, if there
	// are any; 0: 2.5 s.
	HedgeDelay time.Duration

	// Anomalies are the events that the notes of affected answers name; nil: translate.KnownAnomalies.
	Anomalies translate.Anomalies
}

// CacheConfig configures the cache of upstream rows and answers. Only Bytes is required.
type CacheConfig struct {
	Bytes   int64            // bounds its memory
	Rows    *redisrows.Store // shares the rows between replicas; nil: there is one replica
	Keyring *keyring.Keyring // seals the rows that replicas share; nil: each replica has its own

	// RedisPatience bounds the delay that an unresponsive Redis adds to a request; 0: 100 ms.
	RedisPatience time.Duration
}

// A reportServer answers reports, with rows of the upstream, of the archive, or of both (performance.go). It is safe for concurrent use.
type reportServer struct {
	config ReportsConfig
	store  *sqlstore.Store // of brand terms and page groups
	gate   *policy.Gate    // charges live calls
	cache  *cache.Cache
	fills  *fillbudget.Budget // bounds the memory of upstream answers in flight

	// What earlier requests have shown about properties.
	hedge     *hedge
	tables    *tableSizes
	published *publications

	// What an answer is built with.
	largeWork largeWork
	mergers   sync.Pool // of *translate.Merger
	heads     sync.Pool // of *[]byte, see writeHead
}

// newReports returns a reportServer, whose cache the caller closes.
func newReports(c *Config, gate *policy.Gate) (*reportServer, error) {
	fills, err := c.Capacity.newFills(c.Registry)
	if err != nil {
		return nil, err
	}
	kept, err := newCache(c)
	if err != nil {
		return nil, err
	}
	return &reportServer{
		config: c.Reports, store: c.Store, gate: gate, cache: kept, fills: fills,
		hedge: newHedge(c.Reports.HedgeDelay, c.Registry), tables: newTableSizes(), published: newPublications(),
		largeWork: newLargeWork(c.Capacity.Slots),
		mergers:   sync.Pool{New: func() any { return new(translate.Merger) }},
		heads:     sync.Pool{New: func() any { return new(make([]byte, 0, usualHead)) }},
	}, nil
}

func newCache(c *Config) (*cache.Cache, error) {
	return cache.New(cache.Config{
		Bytes: c.Cache.Bytes, Rows: c.Cache.Rows, Keyring: c.Cache.Keyring, RedisPatience: c.Cache.RedisPatience, Errors: errorCodec{},
		FillTimeout: fillTimeout, Slots: c.Capacity.Slots, Now: c.Now, Log: c.Log, Registry: c.Registry,
	})
}
