package policy

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed script/inspect.lua
var inspectLua string

// What Google lets all callers together inspect of one site, as its page on the Search Console API's usage limits says:
// 2,000 addresses a day and 600 a minute. It counts days from Pacific midnight.
const (
	InspectionsPerDay    = 2000
	InspectionsPerMinute = 600
)

// inspectionTrip is the longest that a question may take. It is longer than that of a customer's request, who waits.
const inspectionTimeout = time.Second

// InspectionLimits bounds the URL inspections of one site. What is not positive means Google's number.
type InspectionLimits struct {
	PerDay    int
	PerMinute int
}

// Inspections shares the upstream's quota of URL inspections among all processes on one Redis, for each site by itself. It
// has no share to fall back on while Redis is away: nobody waits for an inspection, so whoever wanted one waits for Redis.
// It is safe for concurrent use.
type Inspections struct {
	client   noRetryClient
	script   *redis.Script
	perDay   int
	capacity int           // of the bucket
	interval time.Duration // in which the bucket gains one
	timeout  time.Duration
}

// NewInspections returns the shared quota over a client from OpenRedis, which need not answer yet and stays the caller's to
// close. All processes must have the same limits.
func NewInspections(client redis.UniversalClient, limits InspectionLimits) *Inspections {
	return newInspections(client, limits, inspectionTimeout)
}

// newInspections takes the longest that a question may take.
func newInspections(client redis.UniversalClient, limits InspectionLimits, trip time.Duration) *Inspections {
	if limits.PerDay <= 0 {
		limits.PerDay = InspectionsPerDay
	}
	if limits.PerMinute <= 0 {
		limits.PerMinute = InspectionsPerMinute
	}
	// A full bucket and what it gains in a minute are the limit together, so that no minute, whenever it begins, sees more.
	capacity := max(1, limits.PerMinute/20)
	gained := limits.PerMinute - capacity
	return &Inspections{
		client:   noRetryClient{client},
		script:   redis.NewScript(inspectLua),
		perDay:   limits.PerDay,
		capacity: capacity,
		interval: time.Minute/time.Duration(gained+1) + time.Microsecond, // the least of which a minute has no more than gained
		timeout:  trip,
	}
}

// Take takes one inspection of a site, from the day and from the minute or from neither. The day is the number of the
// Pacific day by the caller's calendar; the minute is by Redis' clock. If it is not granted, wait says after how long to ask
// again; a wait of zero means that the day is used up.
//
// An error means that Redis did not decide within a second, or that ctx ended first. It is not asked again, and may have
// taken the inspection all the same: then one fewer is made than could be. A Redis that lost its memory starts again from a
// full quota; what goes beyond the upstream's own count is refused there.
func (q *Inspections) Take(ctx context.Context, site string, day int32) (granted bool, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	numbers, err := q.script.Run(ctx, q.client, inspectionKeys(site, day),
		q.perDay, q.interval.Microseconds(), q.capacity).Int64Slice()
	if err == nil && len(numbers) != 2 {
		err = fmt.Errorf("the server answers %d numbers, not 2", len(numbers))
	}
	if err != nil {
		return false, 0, fmt.Errorf("take an inspection of %s from the shared quota: %w", site, err)
	}
	return numbers[0] == 1, time.Duration(numbers[1]) * time.Microsecond, nil
}

// inspectionKeys are those of the bucket and of the day. The braces keep both on one server of a cluster; a site without
// characters of its own inside them cannot end them.
func inspectionKeys(site string, day int32) []string {
	prefix := "sara:{" + url.QueryEscape(site) + "}:inspections:"
	return []string{prefix + "minute", prefix + strconv.Itoa(int(day))}
}
