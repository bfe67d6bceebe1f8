package policy

import (
	"context"
	_ "embed"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed script/admit.lua
var admitLua string

const (
	maxBatch = 256 // admissions in one round trip

	// A command is sent again to a server that has lost the script, after a restart or a failover, and once its clock is known.
	maxAttempts = 3
)

// An admission is one request that waits for the shared counter's decision; without a key it only asks for the usage.
type admission struct {
	accountID, keyID string
	plan             Plan
	key              string        // of the account in Redis, for the first of a group
	done             chan struct{} // gets one value when the rest is decided

	usage   Usage
	refusal *Refusal
	err     error // the counter did not decide
}

// A batcher sends the admissions that wait at the same time in one round trip, and one round trip at a time. It needs no timer
// to gather them: what arrives while a round trip is under way makes the next one, so that an idle server adds no delay and
// a busy one fills its batches. A second round trip at once would save some half of a round trip's time, and halve the
// batches, on which it depends what an admission costs Redis.
type batcher struct {
	client      noRetryClient
	cluster     bool // the keys of two accounts may live on two servers
	script      *redis.Script
	clock       *redisClock
	timeout     time.Duration // the longest that a round trip may take
	redisIsDown func() bool   // whether not to ask at all
	redisDown   func(error)   // told when the server did not decide, before those who wait are
	metrics     batchMetrics

	queue chan *admission
	pool  sync.Pool
	done  sync.WaitGroup
}

func newBatcher(client noRetryClient, clock *redisClock, trip time.Duration, away func() bool, lost func(error), metrics batchMetrics) *batcher {
	b := &batcher{client: client, cluster: client.isCluster(), script: redis.NewScript(admitLua), clock: clock, timeout: trip,
		redisIsDown: away, redisDown: lost, metrics: metrics, queue: make(chan *admission, maxBatch)}
	b.pool.New = func() any { return &admission{done: make(chan struct{}, 1)} }
	b.done.Go(b.run)
	return b
}

// close waits for the round trips under way. Nobody calls admit any more.
func (b *batcher) close() {
	close(b.queue)
	b.done.Wait()
}

// admit waits for the decision on one request, or with an empty keyID for the usage: for little longer than the round trip
// that is under way and its own, both bounded, and not at all when the server was lost meanwhile.
func (b *batcher) admit(accountID, keyID string, p Plan) (Usage, *Refusal, error) {
	a, _ := b.pool.Get().(*admission)
	a.accountID, a.keyID, a.plan = accountID, keyID, p
	b.queue <- a
	<-a.done
	usage, refusal, err := a.usage, a.refusal, a.err
	a.refusal, a.err = nil, nil
	b.pool.Put(a)
	return usage, refusal, err
}

func (b *batcher) run() {
	batch := make([]*admission, 0, maxBatch)
	for first := range b.queue {
		// Requests that are ready to run get as far as the queue first: on a busy server that makes batches several times as
		// large, for as little delay as they take to get there; on an idle one there are none.
		runtime.Gosched()
		batch = b.fill(append(batch[:0], first))
		b.decide(batch)
		for _, a := range batch {
			a.done <- struct{}{}
		}
	}
}

// gather adds to the batch what waits already.
func (b *batcher) fill(batch []*admission) []*admission {
	for len(batch) < maxBatch {
		select {
		case next, ok := <-b.queue:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

var errRedisDown = errors.New("the shared counter is away")

// decide fills in the decisions on a batch.
func (b *batcher) decide(batch []*admission) {
	if b.redisIsDown() {
		for _, a := range batch {
			a.err = errRedisDown
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	begun := b.clock.now()
	pending := commandsFor(batch, b.cluster)
	var err error
	for attempt := 0; len(pending) > 0 && attempt < maxAttempts; attempt++ {
		if again, failed := b.send(ctx, pending); failed != nil {
			pending, err = again, failed
		} else {
			pending = again
		}
	}
	for _, c := range pending {
		err = c.fail(errExpired)
	}
	b.metrics.observe(len(batch), b.clock.now().Sub(begun))
	if err != nil {
		b.redisDown(err)
	}
}

// ask asks for the decisions on some commands. It returns those that the server has certainly not carried out, but might
// if they were sent again, and an error of those that are lost.
func (b *batcher) send(ctx context.Context, commands []command) (again []command, err error) {
	asked := b.clock.now()
	deadline := b.clock.deadline(ctx)
	pipe := b.client.Pipeline()
	for i := range commands {
		c := &commands[i]
		c.reply = redis.NewIntSliceCmd(ctx, c.args(b.script.Hash(), deadline)...)
		c.reply.SetFirstKeyPos(firstKey)
		_ = pipe.Process(ctx, noRetry{c.reply}) // only queues
	}
	// The error of the pipeline is the first of its commands'; each is looked at here.
	_, _ = pipe.Exec(ctx)
	for _, c := range commands {
		switch failed := c.readReply(b.clock, asked); {
		case redis.HasErrorPrefix(failed, "NOSCRIPT"):
			c.sendSource = true
			again = append(again, c)
		case errors.Is(failed, errExpired):
			again = append(again, c)
		case failed != nil:
			err = c.fail(failed)
		}
	}
	return again, err
}
