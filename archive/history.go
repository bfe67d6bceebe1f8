package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive/bucket"
	"sara/policy/lru"
	"sara/policy/panics"
	"sara/translate"
)

// HistoryConfig configures a History.
type HistoryConfig struct {
	Bucket bucket.Bucket
	Now    func() time.Time // nil: time.Now
	// CacheBytes bounds the memory of the cached months and the names of their keys; 0 means 64 MiB.
	CacheBytes int64
	// Recheck is how long the listing of a property's months is cached, and so the longest delay before a reader sees the writes of
	// other processes; 0 means 5 s.
	Recheck time.Duration
}

const (
	defaultCacheBytes = 64 << 20
	defaultRecheck    = 5 * time.Second
)

const (
	parallelReads = 8       // objects that one call reads concurrently
	maxListings   = 10_000  // properties whose listing is cached, some 3 KB each
	maxLedgers    = 50_000  // months whose ledger is cached, some 400 B each
	stripes       = 256     // of the write counters
	monthOverhead = 4 << 10 // bytes of a cached month in addition to its object and its row groups
	groupOverhead = 7 << 10 // bytes of a row group in addition to its rows: the metadata of its columns
	namesShare    = 8       // names get 1/namesShare of the cache's memory
)

// History is the archived figures of all properties in one bucket. It is safe for concurrent use, and does not need to be closed.
type History struct {
	bucket  bucket.Bucket
	now     func() time.Time
	recheck time.Duration

	listings *loadingCache[listingKey, listing]
	ledgers  *lru.Cache[revisionKey, *ledger]
	months   *loadingCache[revisionKey, *object]

	// writes count this process's writes, striped by the hash of the property. The count is part of a listing's cache key, so
	// each write invalidates the listings that began before it.
	writes [stripes]atomic.Uint64
	seed   maphash.Seed

	names   *lru.Cache[namesKey, *names]
	tallies sync.Pool // of *tally

	damagedReads atomic.Uint64
}

type listingKey struct {
	property string
	writes   uint64
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

// A listing has the months of a property, in order. The version differs between listings of different objects.
type listing struct {
	months  []monthObject
	version uint64
	began   time.Time
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
	h.tallies.New = func() any { return new(tally) }
	h.listings = newLoadingCache(maxListings, func(listing) int64 { return 1 }, h.isFresh, h.loadListing)
	h.ledgers = lru.New[revisionKey](lru.Config[*ledger]{Weight: maxLedgers})
	h.names = lru.New[namesKey](lru.Config[*names]{Weight: size / namesShare})
	h.months = newLoadingCache(size-size/namesShare, func(o *object) int64 { return int64(o.size) + monthOverhead },
		func(*object) bool { return true }, h.loadMonth)
	return h, nil
}

func (h *History) stripe(property string) *atomic.Uint64 {
	return &h.writes[maphash.String(h.seed, property)%stripes]
}

// list returns the months that a property has, in order.
func (h *History) list(ctx context.Context, property string) ([]monthObject, error) {
	listed, err := h.listing(ctx, property)
	return listed.months, err
}

// Version returns a number that changes when a month of the property is written or removed: reads at equal
// versions return equal data. Writes of other processes change it within HistoryConfig.Recheck.
func (h *History) Version(ctx context.Context, property string) (uint64, error) {
	listed, err := h.listing(ctx, property)
	return listed.version, err
}

func (h *History) listing(ctx context.Context, property string) (listing, error) {
	if err := checkProperty(property); err != nil {
		return listing{}, err
	}
	return h.listings.get(ctx, listingKey{property: property, writes: h.stripe(property).Load()})
}

// isFresh reports whether a listing can still be used. A start in the future means that the clock has been set back.
func (h *History) isFresh(l listing) bool {
	age := h.now().Sub(l.began)
	return age >= 0 && age < h.recheck
}

func (h *History) loadListing(ctx context.Context, key listingKey) (listing, listingKey, error) {
	l := listing{began: h.now()}
	entries, err := h.bucket.List(ctx, propertyPrefix(key.property))
	if err != nil {
		return listing{}, key, err
	}
	for _, e := range entries { // by name, which is by month
		if month, ok := parseObjectName(key.property, e.Name); ok {
			l.months = append(l.months, monthObject{month: month, revision: e.Revision})
		}
	}
	var hash maphash.Hash
	hash.SetSeed(h.seed)
	for _, m := range l.months {
		maphash.WriteComparable(&hash, m)
	}
	l.version = hash.Sum64()
	return l, key, nil
}

// ready returns a month from the cache; nil unless it is cached and everything that a range of days is read from is decoded.
func (h *History) ready(property string, m monthObject, by translate.Dimension, r translate.DateRange) *object {
	o, _ := h.months.values.Get(revisionKey{property: property, month: m.month, revision: m.revision})
	if o == nil || !o.isDecodedFor(by, r) {
		return nil
	}
	return o
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

// get returns the object of a month and its revision. The error is bucket.ErrNotFound, an *ObjectError if the object is unusable, or one of
// the store.
func (h *History) get(ctx context.Context, property string, month translate.Date) (data []byte, revision string, err error) {
	name := objectName(property, month)
	data, revision, err = h.bucket.Get(ctx, name)
	if errors.Is(err, bucket.ErrUnusable) {
		err = &ObjectError{Name: name, Month: month, Reason: err}
	}
	return data, revision, err
}

// loadMonth gets a month. It may be newer than the listed revision, which is just as good for the caller, but must not be cached as that
// revision: a restore from a backup may bring the listed revision back.
func (h *History) loadMonth(ctx context.Context, key revisionKey) (*object, revisionKey, error) {
	data, revision, err := h.get(ctx, key.property, key.month)
	if err != nil {
		return nil, key, err
	}
	if revision != key.revision {
		h.stripe(key.property).Add(1) // its listing is outdated
		key.revision = revision
	}
	o, err := openObject(key.property, key.month, data)
	if err == nil {
		l := o.ledger // a pointer into the object would keep all of it in memory
		h.ledgers.Put(key, &l)
	}
	return o, key, err
}

// each calls use for every month of a property that overlaps r, in order, with the result of ready or, if that is nil, of get.
// It gets several months in parallel. It skips months that have been removed, and those whose object is damaged, which it returns.
func each[T any](ctx context.Context, h *History, property string, r translate.DateRange,
	ready func(string, monthObject) *T, get func(context.Context, string, monthObject) (*T, error), use func(*T) error) (*DamageError, error) {
	listed, err := h.list(ctx, property)
	if err != nil {
		return nil, err
	}
	listed = overlapping(listed, r)
	fetched, broken := make([]*T, len(listed)), []*ObjectError(nil)
	absent := 0
	for i, m := range listed {
		if fetched[i] = ready(property, m); fetched[i] == nil {
			absent++
		}
	}
	if absent > 0 {
		if broken, err = getAll(ctx, property, listed, fetched, get); err != nil {
			return nil, err
		}
	}
	for _, item := range fetched {
		if item == nil {
			continue
		}
		if err := use(item); err != nil {
			return nil, err
		}
	}
	if len(broken) == 0 {
		return nil, nil
	}
	h.damagedReads.Add(uint64(len(broken)))
	return &DamageError{Objects: broken}, nil
}

// overlapping returns the months, which are in order, that overlap r.
func overlapping(months []monthObject, r translate.DateRange) []monthObject {
	from := sort.Search(len(months), func(i int) bool { return months[i].month.AddMonths(1) > r.Start })
	return months[from : from+sort.Search(len(months)-from, func(i int) bool { return months[from+i].month > r.End })]
}

// getAll gets the months that have not been fetched, several in parallel. It returns those whose object is damaged.
func getAll[T any](ctx context.Context, property string, months []monthObject, fetched []*T,
	get func(context.Context, string, monthObject) (*T, error)) (damaged []*ObjectError, err error) {
	broken := make([]*ObjectError, len(months))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallelReads)
	for i, m := range months {
		if fetched[i] != nil {
			continue
		}
		group.Go(func() (err error) {
			defer panics.Recover(&err)
			if fetched[i], err = get(within, property, m); errors.As(err, &broken[i]) {
				fetched[i], err = nil, nil
			}
			return err
		})
	}
	err = group.Wait()
	panics.Repanic(err)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(broken, func(e *ObjectError) bool { return e == nil }), nil
}

// DamagedReads returns how many times an object was needed but could not be used.
func (h *History) DamagedReads() uint64 { return h.damagedReads.Load() }
