package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// once marks a command as not idempotent.
type once struct{ redis.Cmder }

// NoRetry implements the interface that go-redis checks.
func (once) NoRetry() bool { return true }

// firstKey is the position of the first key in EVAL and EVALSHA. A cluster client that is not told it formats an argument to find it.
const firstKey = 3

// Once marks an EVAL or EVALSHA as not idempotent, to be sent at most once. Without it, a cluster client resends a command whose
// connection broke before the reply, whatever its options say, and a charge would count twice.
func Once(script redis.Cmder) redis.Cmder {
	script.SetFirstKeyPos(firstKey)
	return once{script}
}

// A Scripter runs scripts, for package redis and for package redis_rate.
type Scripter interface {
	redis.Scripter
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// ScriptsOnce returns a Scripter that sends each script at most once.
func ScriptsOnce(c Client) Scripter { return onceScripter{c, c} }

type onceScripter struct {
	Scripter
	client Client
}

// EvalSha runs a script by its hash.
func (s onceScripter) EvalSha(ctx context.Context, hash string, keys []string, arguments ...any) *redis.Cmd {
	return s.call(ctx, "evalsha", hash, keys, arguments)
}

// Eval runs a script by its source.
func (s onceScripter) Eval(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	return s.call(ctx, "eval", script, keys, arguments)
}

func (s onceScripter) call(ctx context.Context, verb, script string, keys []string, arguments []any) *redis.Cmd {
	args := []any{verb, script, len(keys)}
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, arguments...)...)
	_ = s.client.Process(ctx, Once(cmd)) // the error is in cmd
	return cmd
}
