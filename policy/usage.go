package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// usageBatch is how many reads one pipeline sends: few enough for Redis to answer within redisconn.StepTimeout.
const usageBatch = 500

// UsageOfAccounts returns what accounts have used of the hour and the day of now, as the replicas on a Redis count it. It is
// read-only. Accounts without usage today are left out.
func UsageOfAccounts(ctx context.Context, client redisconn.Client, accountIDs []string, now time.Time) ([]UsageCount, error) {
	var counts []UsageCount
	err := readUsage(ctx, client, accountIDs, func(pipe redis.Pipeliner, id string) *redis.SliceCmd {
		return pipe.HMGet(ctx, accountKey(id), "h", "hn", "d", "dn", "cn")
	}, func(id string, reply *redis.SliceCmd) error {
		var stored struct {
			Hour   int64 `redis:"h"`
			Day    int64 `redis:"d"`
			InHour int   `redis:"hn"`
			InDay  int   `redis:"dn"`
			Calls  int   `redis:"cn"`
		}
		if err := reply.Scan(&stored); err != nil {
			return err
		}
		c := UsageCount{AccountID: id, Hour: stored.Hour, Day: stored.Day, InHour: stored.InHour, InDay: stored.InDay, Calls: stored.Calls}
		if c.advanceTo(hourOf(now)); c.InDay > 0 || c.Calls > 0 {
			counts = append(counts, c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage of %s: %w", counted(len(accountIDs), "account"), err)
	}
	return counts, nil
}

// UsageOfInspections returns how many inspections of each site have been taken on a Pacific day. It is read-only.
func UsageOfInspections(ctx context.Context, client redisconn.Client, sites []string, day int32) (map[string]int, error) {
	taken := make(map[string]int)
	err := readUsage(ctx, client, sites, func(pipe redis.Pipeliner, site string) *redis.StringCmd {
		return pipe.Get(ctx, inspectionKeys(site, day)[1])
	}, func(site string, reply *redis.StringCmd) error {
		n, err := reply.Int()
		if err == nil {
			taken[site] = n
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return nil, fmt.Errorf("count the inspections of %s: %w", counted(len(sites), "site"), err)
	}
	return taken, nil
}

// UsageOfLiveCalls returns the fraction of the minute's live calls that each property has used, above 0 and up to about 1. It
// is read-only. Properties without usage are left out.
func UsageOfLiveCalls(ctx context.Context, client redisconn.Client, propertyIDs []string) (map[string]float64, error) {
	used := make(map[string]float64)
	err := readUsage(ctx, client, propertyIDs, func(pipe redis.Pipeliner, id string) *redis.DurationCmd {
		return pipe.PTTL(ctx, "rate:"+liveKey(id)) // redis_rate lets a bucket expire when it is full again, to the second
	}, func(id string, reply *redis.DurationCmd) error {
		left, err := reply.Result()
		if left > 0 {
			used[id] = left.Minutes()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the live calls of properties: %w", err)
	}
	return used, nil
}

// readUsage sends one command per id, in pipelines, and reads the replies in order.
func readUsage[C redis.Cmder](ctx context.Context, client redisconn.Client, ids []string, command func(redis.Pipeliner, string) C,
	read func(id string, reply C) error) error {
	for batch := range slices.Chunk(ids, usageBatch) {
		replies := make([]C, len(batch))
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range batch {
				replies[i] = command(pipe, id)
			}
			return nil
		})
		if !redisconn.IsAnswer(err) {
			return err
		}
		for i, reply := range replies {
			if err := read(batch[i], reply); err != nil {
				return fmt.Errorf("%s: %w", batch[i], err)
			}
		}
	}
	return nil
}

// ignoreMissing turns the error for a missing key into nil.
func ignoreMissing(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
