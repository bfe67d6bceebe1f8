package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// peekBatch is how many questions travel together. So many are answered within the time that one step may take.
const usageBatch = 500

// UsageOfAccounts returns what accounts have used of the hour and the day of now, as the replicas on a Redis count it. It charges
// nothing and writes nothing. Accounts that used nothing today are left out.
func UsageOfAccounts(ctx context.Context, client redis.UniversalClient, accountIDs []string, now time.Time) ([]UsageCount, error) {
	var counts []UsageCount
	err := readUsage(ctx, client, accountIDs, func(pipe redis.Pipeliner, id string) *redis.SliceCmd {
		return pipe.HMGet(ctx, accountKey(id), "h", "hn", "d", "dn", "cn")
	}, func(id string, answer *redis.SliceCmd) error {
		var kept struct {
			Hour   int64 `redis:"h"`
			Day    int64 `redis:"d"`
			InHour int   `redis:"hn"`
			InDay  int   `redis:"dn"`
			Calls  int   `redis:"cn"`
		}
		if err := answer.Scan(&kept); err != nil {
			return err
		}
		c := UsageCount{AccountID: id, Hour: kept.Hour, Day: kept.Day, InHour: kept.InHour, InDay: kept.InDay, Calls: kept.Calls}
		if c.advanceTo(hourOf(now)); c.InDay > 0 || c.Calls > 0 {
			counts = append(counts, c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage of %d accounts: %w", len(accountIDs), err)
	}
	return counts, nil
}

// UsageOfInspections returns how many inspections of the sites are taken of a day, by site, without taking one.
func UsageOfInspections(ctx context.Context, client redis.UniversalClient, sites []string, day int32) (map[string]int, error) {
	taken := make(map[string]int)
	err := readUsage(ctx, client, sites, func(pipe redis.Pipeliner, site string) *redis.StringCmd {
		return pipe.Get(ctx, inspectionKeys(site, day)[1])
	}, func(site string, answer *redis.StringCmd) error {
		n, err := answer.Int()
		if err == nil {
			taken[site] = n
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return nil, fmt.Errorf("count the inspections of %d sites: %w", len(sites), err)
	}
	return taken, nil
}

// UsageOfLiveCalls returns which part of a minute's live calls is used of the properties, above 0 and up to about 1, without using
// any. Properties of which none are used are left out.
func UsageOfLiveCalls(ctx context.Context, client redis.UniversalClient, propertyIDs []string) (map[string]float64, error) {
	used := make(map[string]float64)
	err := readUsage(ctx, client, propertyIDs, func(pipe redis.Pipeliner, id string) *redis.DurationCmd {
		return pipe.PTTL(ctx, "rate:"+liveKey(id)) // a bucket is forgotten, to the second, when it is full again
	}, func(id string, answer *redis.DurationCmd) error {
		left, err := answer.Result()
		if left > 0 {
			used[id] = left.Minutes()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the live calls of %d properties: %w", len(propertyIDs), err)
	}
	return used, nil
}

// peek asks a question about each of the ids, and has the answers read in their order.
func readUsage[C redis.Cmder](ctx context.Context, client redis.UniversalClient, ids []string, ask func(redis.Pipeliner, string) C,
	read func(id string, answer C) error) error {
	for batch := range slices.Chunk(ids, usageBatch) {
		answers := make([]C, len(batch))
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range batch {
				answers[i] = ask(pipe, id)
			}
			return nil
		})
		if ignoreMissing(err) != nil {
			return err
		}
		for i, answer := range answers {
			if err := read(batch[i], answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// ignoreNil drops the error that says that there is no such key.
func ignoreMissing(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
