package redisconn

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Exec executes a pipeline whose commands are then checked one by one. If the server refuses the connection, such as for a wrong
// password, go-redis leaves them without an error: here, they get it.
func Exec(ctx context.Context, pipe redis.Pipeliner) {
	commands, err := pipe.Exec(ctx)
	failed := func(c redis.Cmder) bool { return c.Err() != nil }
	if err == nil || slices.ContainsFunc(commands, failed) {
		return // the error is that of the first failed command
	}
	for _, c := range commands {
		c.SetErr(err)
	}
}
