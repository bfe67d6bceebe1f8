package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive/bucket"
	"sara/proxy/lru"
	"sara/translate"
)

// HistoryConfig configures a History.
type HistoryConfig struct {
	Bucket bucket.Bucket
	Now    func() time.Time // nil: time.Now
	// CacheBytes bounds the memory of the cache of months; 0 means 64 MiB.
	CacheBytes int64
	// Recheck is how long the listing of a property's months is cached, and so how late a reader sees the writes of other
	// processes; 0 means 5 s.
	Recheck time.Duration
}

const (
	defaultCacheBytes = 64 << 20
	defaultRecheck    = 5 * time.Second
)

const (
	parallelReads = 8       // objects that one call reads at a time
	maxListings   = 10_000  // properties whose listing is cached, some 3 KB each
	maxLedgers    = 50_000  // months whose ledger is cached, some 400 B each
	stripes       = 256     // of the write counters
	monthOverhead = 1 << 10 // bytes of a cached month besides its object
)

// History is the archived figures of all properties in one bucket. It is safe for concurrent use, and need not be closed.
type History struct {
	bucket  bucket.Bucket
	now     func() time.Time
	recheck time.Duration

	listings *loadingCache[listingKey, []monthObject]
	ledgers  *lru.Cache[revisionKey, *ledger]
	months   *loadingCache[revisionKey, *object]

	// writes count this process's writes, striped by the hash of the property. A count is part of a listing's cache key, so
	// that each write invalidates the listings that began before it.
	writes [stripes]atomic.Uint64
	seed   maphash.Seed

	damagedReads atomic.Uint64
}

type listingKey struct {
	property string
	writes   uint64
	period   int64 // the number of the Recheck interval, so that a listing expires with it
}

// revisionKey names one revision of an object, which is immutable.
type revisionKey struct {
	property string
	month    translate.Date
	revision string
}

// monthObject is one month of a listing.
type monthObject struct {
	month    translate.Date
	revision string
}

// NewHistory returns the History in a bucket.
func NewHistory(c HistoryConfig) (*History, error) {
	h := &History{bucket: c.Bucket, now: c.Now, recheck: cmp.Or(c.Recheck, defaultRecheck), seed: maphash.MakeSeed()}
	size := cmp.Or(c.CacheBytes, defaultCacheBytes)
	switch {
	case c.Bucket == nil:
		return nil, errors.New("make a history: the bucket is missing")
	case h.recheck < 0 || size < 0:
		return nil, fmt.Errorf("make a history: recheck %v and a cache of %d bytes: neither may be negative", h.recheck, size)
	case h.now == nil:
		h.now = time.Now
	}
	h.listings = newLoadingCache(maxListings, func([]monthObject) int64 { return 1 }, h.loadListing)
	h.ledgers = lru.New[revisionKey](lru.Config[*ledger]{Weight: maxLedgers})
	h.months = newLoadingCache(size, func(o *object) int64 { return int64(o.size) + monthOverhead }, h.loadMonth)
	return h, nil
}

func (h *History) stripe(property string) *atomic.Uint64 {
	return &h.writes[maphash.String(h.seed, property)%stripes]
}

// list returns the months that a property has, in order.
func (h *History) list(ctx context.Context, property string) ([]monthObject, error) {
	key := listingKey{
		property: property,
		writes:   h.stripe(property).Load(),
		period:   h.now().UnixNano() / int64(h.recheck),
	}
	return h.listings.get(ctx, key)
}

func (h *History) loadListing(ctx context.Context, key listingKey) ([]monthObject, error) {
	entries, err := h.bucket.List(ctx, propertyPrefix(key.property))
	if err != nil {
		return nil, err
	}
	listed := make([]monthObject, 0, len(entries))
	for _, e := range entries {
		if month, ok := parseObjectName(key.property, e.Name); ok {
			listed = append(listed, monthObject{month: month, revision: e.Revision})
		}
	}
	slices.SortFunc(listed, func(a, b monthObject) int { return cmp.Compare(a.month, b.month) })
	return listed, nil
}

// load returns a month from the cache or from the bucket; nil if it was removed after it was listed.
func (h *History) load(ctx context.Context, property string, m monthObject) (*object, error) {
	key := revisionKey{property: property, month: m.month, revision: m.revision}
	o, err := h.months.get(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, nil
	}
	return o, err
}

func (h *History) loadMonth(ctx context.Context, key revisionKey) (*object, error) {
	// The object may be newer than the listed revision, which is just as good.
	data, _, err := h.bucket.Get(ctx, objectName(key.property, key.month))
	if err != nil {
		return nil, err
	}
	o, err := openObject(key.property, key.month, data)
	if err == nil {
		h.ledgers.Put(key, &o.ledger, 1, "")
	}
	return o, err
}

// each calls use for every month of a property that overlaps r, in order, with the result of get. It gets several months in
// parallel, and skips those that have been removed, and those whose object is damaged, which it returns.
func each[T any](ctx context.Context, h *History, property string, r translate.DateRange,
	get func(context.Context, string, monthObject) (*T, error), use func(*T) error) (*DamageError, error) {
	if err := checkProperty(property); err != nil {
		return nil, err
	}
	listed, err := h.list(ctx, property)
	if err != nil {
		return nil, err
	}
	listed = slices.DeleteFunc(slices.Clone(listed), func(m monthObject) bool {
		return m.month > r.End || m.month.AddMonths(1) <= r.Start
	})
	fetched, broken := make([]*T, len(listed)), make([]*ObjectError, len(listed))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallelReads)
	for i, m := range listed {
		group.Go(func() (err error) {
			if fetched[i], err = get(within, property, m); errors.As(err, &broken[i]) {
				fetched[i], err = nil, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var damaged []*ObjectError
	for i, item := range fetched {
		if broken[i] != nil {
			damaged = append(damaged, broken[i])
			continue
		}
		if item == nil {
			continue
		}
		if err := use(item); err != nil {
			return nil, err
		}
	}
	if len(damaged) == 0 {
		return nil, nil
	}
	h.damagedReads.Add(uint64(len(damaged)))
	return &DamageError{Objects: damaged}, nil
}

// DamagedReads returns how many times an object was needed and could not be used.
func (h *History) DamagedReads() uint64 { return h.damagedReads.Load() }
