// Package redisconn connects sara to Redis, and hides which kind of Redis that is: a single server, one behind Sentinel, or a cluster.
//
// All other packages use a Client, whose commands are those of go-redis. What differs between the kinds of Redis is here: opening
// (Open), calls to each master (EachMaster), scripts that must not be sent twice (Once), pub/sub (Subscribe) and refusals that are no
// outage (IsFull, IsMoving). Its connections do not take a pause of this process for an outage of Redis (late.go).
//
// # Why the types of go-redis stay in here
//
// The compiler generates about 1,470 methods of go-redis' clients again in each package that can reach one of their types, by a
// field or by a function that is inlined: they contain a weak.Pointer to themselves, and each package has its own copy of the
// methods of an instantiated type. That was two fifths of the time to compile sara. An interface of our own prevents it, since a package
// that has only the interface cannot reach them. redis.Cmdable, redis.Pipeliner, commands and scripts are not a problem.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A Client sends commands to a Redis. Open returns one; no other type implements it. It is safe for concurrent use.
type Client interface {
	redis.Cmdable
	// Do sends a command that go-redis has no method for.
	Do(ctx context.Context, arguments ...any) *redis.Cmd
	// Process sends a command, whose error it also returns.
	Process(ctx context.Context, command redis.Cmder) error
	// AddHook lets tests count, delay and cut off commands.
	AddHook(hook redis.Hook)
	// Close closes the connections.
	Close() error
}

// StepTimeout bounds each dial, read and write for requests. They cannot wait longer for Redis, and have memory to fall back on. It bounds the
// extension after a pause of this process, too.
const StepTimeout = 100 * time.Millisecond

// stepsToMaster is how many steps a connection to the master of a Sentinel may take: the client asks the sentinel that it knows, asks it
// again, asks all of them, and dials the master. With a single step, it would fail before it asks another sentinel than one that does not
// answer, for as long as that one is down, and with it often the master, on the same machine.
const stepsToMaster = 5

// Open returns a client for a URL in one of the forms of go-redis: redis:// or rediss:// for a single server, unix:// for
// a socket; with master_name (and addr for further sentinels) for Sentinel; with addr for the further nodes of a cluster. It
// does not connect yet. step is the timeout of each dial, read and write: StepTimeout for requests, more for what can wait.
// On connecting, the client sends nothing but HELLO, so that access control lists need no more than the commands that sara uses.
// The client never retries by itself: a charge is not idempotent, and a retry might count it twice. Errors quote no more of the URL
// than Address shows.
func Open(address string, step time.Duration) (Client, error) {
	parsed, err := parse(address)
	if err != nil {
		return nil, err
	}
	var client Client
	switch query := parsed.Query(); {
	case query.Get("master_name") != "":
		client, err = openFailover(address, step)
	case query.Has("addr"):
		var o *redis.ClusterOptions
		if o, err = redis.ParseClusterURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
			o.Dialer = patient(&redis.Options{DialTimeout: step, TLSConfig: o.TLSConfig})
			client = redis.NewClusterClient(o)
		}
	default:
		var o *redis.Options
		if o, err = redis.ParseURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
			o.Dialer = patient(o)
			client = redis.NewClient(o)
		}
	}
	if err != nil {
		// The error of the library may quote a secret.
		return nil, fmt.Errorf("the Redis URL %s has a path that is not a database number, or an unknown or "+
			"invalid parameter: %s; add a database as /0, and a parameter as ?pool_size=50", Address(address), help)
	}
	client.AddHook(patientHook{})
	return client, nil
}

// openFailover returns a client of the master of a Sentinel.
func openFailover(address string, step time.Duration) (Client, error) {
	o, err := redis.ParseFailoverURL(address)
	if err != nil {
		return nil, err
	}
	if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly { // of the last two, go-redis panics
		return nil, errors.New("replicas, which lag behind their master, shall answer")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = stepsToMaster*step, step, step, step
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
	o.Dialer = patient(&redis.Options{DialTimeout: step, TLSConfig: o.TLSConfig})
	return redis.NewFailoverClient(o), nil
}

// IsAnswer reports whether Redis has answered a step that ended with err, if only that there is no value, or one of another program.
func IsAnswer(err error) bool {
	return err == nil || errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// IsMoving reports whether an error means that a cluster refused a command because some of its keys are already on another node: their slot
// is being moved. No part of it was executed, and all other slots answer.
func IsMoving(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }

// IsFull reports whether an error means that Redis refused a command or a script because its memory is full. No part of it was executed.
func IsFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OOM command not allowed") // a script's error has it within
}
