package redisconn_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// What is asked of each server, such as its memory, is also asked of the only one.
func TestEachMasterIsEveryServer(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"on one Redis": 1, "on a cluster": 3} {
		t.Run(name, func(t *testing.T) {
			connect := redistest.Single(t).Client
			if want > 1 {
				connect = redistest.Cluster(t).Client
			}
			var asked atomic.Int64
			err := redisconn.EachMaster(t.Context(), connect(), func(ctx context.Context, node redis.Cmdable) error {
				asked.Add(1)
				return node.Info(ctx).Err()
			})
			if asked.Load() != want || err != nil {
				t.Errorf("%d servers are asked, %v, want %d", asked.Load(), err, want)
			}
		})
	}
}
