package policy

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/lru"
	"sara/policy/redisconn"
)

// Google's quota of URL inspections per site, over all callers, as documented under the usage limits of the Search Console
// API. Its days begin at midnight Pacific time.
const (
	InspectionsPerDay    = 2000
	InspectionsPerMinute = 600
)

// inspectionTimeout bounds one call of Redis. It is longer than a request's, because no customer is waiting.
const inspectionTimeout = time.Second

// InspectionLimits bounds the URL inspections of one site. Zero or less means Google's quota.
type InspectionLimits struct {
	PerDay    int
	PerMinute int
}

// Inspections shares the upstream's quota of URL inspections, which is per site, among all processes on one Redis. Unlike
// RedisBudget it has no fallback: inspections run in the background and can wait until Redis is back. It is safe for
// concurrent use.
type Inspections struct {
	scripts  redisconn.Scripter
	script   *redis.Script
	perDay   int
	capacity int           // of the token bucket
	interval time.Duration // in which the bucket gets one token back
	timeout  time.Duration
	raising  sync.Mutex               // held while a count in known is raised
	known    *lru.Cache[siteDay, int] // the most that any process had taken on a day, as Redis reported
}

// siteDay is a day of a site's quota.
type siteDay struct {
	site string
	day  int32
}

// maxKnownDays bounds the days whose count is known, to some 20 MB.
const maxKnownDays = 100_000

// NewInspections returns the quota that is shared over a client from redisconn.Open, whose server may still be down. The caller
// closes the client. All processes have to use the same limits.
func NewInspections(client redisconn.Client, limits InspectionLimits) *Inspections {
	return newInspections(client, limits, inspectionTimeout)
}

// newInspections lets tests choose the timeout.
func newInspections(client redisconn.Client, limits InspectionLimits, timeout time.Duration) *Inspections {
	if limits.PerDay <= 0 {
		limits.PerDay = InspectionsPerDay
	}
	if limits.PerMinute <= 0 {
		limits.PerMinute = InspectionsPerMinute
	}
	// The capacity and the refill of a minute add up to the limit, so that no sliding minute exceeds it.
	capacity := max(1, limits.PerMinute/20)
	refill := limits.PerMinute - capacity
	return &Inspections{
		scripts:  redisconn.ScriptsOnce(client),
		script:   redis.NewScript(inspectLua),
		perDay:   limits.PerDay,
		capacity: capacity,
		interval: time.Minute/time.Duration(refill+1) + time.Microsecond, // the shortest that fits a minute at most refill times
		timeout:  timeout,
		known:    lru.New[siteDay](lru.Config[int]{Weight: maxKnownDays}),
	}
}

// Take takes one inspection of a site, from its day and its minute or from neither. The day is the number of the Pacific day
// by the caller's calendar; the minute is by the clock of Redis. If it is not granted, wait is the time until the next token;
// a wait of zero means that the day's quota is used up.
//
// An error means that Redis did not decide within a second, or that ctx ended first. Redis may have counted the inspection
// anyway: the script is not idempotent, so it is not retried. One inspection of the quota is then lost.
//
// If Redis has lost the day's count, Take restores the highest count that this process has read there. What others took since then is
// granted again, and so is the minute; the upstream refuses what exceeds its own count.
func (q *Inspections) Take(ctx context.Context, site string, day int32) (granted bool, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	of := siteDay{site, day}
	known, _ := q.known.Get(of)
	numbers, err := q.script.Run(ctx, q.scripts, inspectionKeys(site, day),
		q.perDay, q.interval.Microseconds(), q.capacity, known).Int64Slice()
	if err == nil && len(numbers) != 3 {
		err = fmt.Errorf("reply of Redis has %d numbers, not 3", len(numbers))
	}
	if err != nil {
		return false, 0, fmt.Errorf("take an inspection of %s from the shared quota: %w", site, err)
	}
	q.raise(of, int(numbers[2]))
	return numbers[0] == 1, time.Duration(numbers[1]) * time.Microsecond, nil
}

// raise notes how many inspections of a day are taken. Replies may arrive in another order than Redis has counted.
func (q *Inspections) raise(of siteDay, taken int) {
	q.raising.Lock()
	defer q.raising.Unlock()
	if known, _ := q.known.Get(of); taken > known {
		q.known.Put(of, taken)
	}
}

// inspectionKeys returns the keys of the token bucket and of the day's count. The braces put both on one server of a cluster;
// escaping the site keeps its own braces from closing them.
func inspectionKeys(site string, day int32) []string {
	prefix := "sara:{" + url.QueryEscape(site) + "}:inspections:"
	return []string{prefix + "minute", prefix + strconv.Itoa(int(day))}
}
