package policy

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

const (
	maxBatch = 256 // admissions in one round trip

	// A request that does not fit only because of the leases of other replicas waits until they are returned, and is tried again after each
	// leaseRetry, for as long as a round trip may take. Of a batch, maxWaiting can wait: the rest is for others.
	leaseRetry = 2 * time.Millisecond
	maxWaiting = maxBatch / 4

	// A command is sent again to a server that has lost the script, after a restart or failover, when it reached the server
	// too late by a clock that has since been corrected, and when the server's memory was full.
	maxAttempts = 3
)

// An admission is one request that waits for a decision by Redis. Without a keyID it only reads the usage.
type admission struct {
	accountID, keyID string
	plan             Plan
	leaseOnly        bool          // no request waits for this, which leases more, or returns a lease
	lease            int           // requests of the key to lease, or negative to return; set in the first admission of a key
	giveUp           time.Time     // when to refuse the request if leases are still in the way; zero if they were not
	redisKey         string        // of the account; set in the first admission of a group
	marks            marks         // of the account; set in the first admission of a group
	done             chan struct{} // gets one value when the fields below are set

	usage   Usage
	refusal *Refusal
	err     error // Redis did not decide
}

// A batcher sends all waiting admissions in one round trip, and makes one round trip at a time. It needs no timer to collect a
// batch: requests that arrive during a round trip are the next batch, so an idle server adds no delay and a busy one fills
// its batches. A second concurrent round trip would save about half a round trip of waiting, but halve the batches, and the
// cost of an admission to Redis depends on their size.
type batcher struct {
	client   redisconn.Client
	cluster  bool // the accounts may be on different servers
	script   *redis.Script
	clock    *redisClock
	timeout  time.Duration // of one attempt of a round trip
	ownField string        // in the hash of an account: the requests of this replica
	ledger   *MemoryBudget // of what this replica has admitted and seen
	metrics  batchMetrics
	events   batchEvents
	after    func(time.Duration) <-chan time.Time

	queue chan *admission
	pool  sync.Pool
	done  sync.WaitGroup
}

// batchEvents are what a batcher needs to know and to have done about Redis.
type batchEvents struct {
	redisIsDown func() bool                                            // asked before each round trip
	redisDown   func(error)                                            // called when Redis did not decide, before the waiting requests return
	relieve     func(context.Context)                                  // called when Redis refused because its memory is full
	restore     func(ctx context.Context, entries []ledgerEntry) error // called when Redis has lost requests of accounts
}

func newBatcher(client redisconn.Client, clock *redisClock, timeout time.Duration, replica string, ledger *MemoryBudget, metrics batchMetrics,
	events batchEvents) *batcher {
	b := &batcher{client: client, cluster: redisconn.IsCluster(client), script: redis.NewScript(admitLua), clock: clock, timeout: timeout,
		ownField: "b:" + replica, ledger: ledger, metrics: metrics, events: events, after: time.After, queue: make(chan *admission, maxBatch)}
	b.pool.New = func() any { return &admission{done: make(chan struct{}, 1)} }
	b.done.Go(b.run)
	return b
}

// close waits for the round trip in progress. The caller makes sure that no call of admit is running.
func (b *batcher) close() {
	close(b.queue)
	b.done.Wait()
}

// admit waits for the decision on one request, or with an empty keyID for the usage. It takes at most the round trip in
// progress and its own, each attempt of which is bounded by the timeout; if the first of them fails, it returns at once.
func (b *batcher) admit(accountID, keyID string, p Plan) (Usage, *Refusal, error) {
	a, _ := b.pool.Get().(*admission)
	a.accountID, a.keyID, a.plan = accountID, keyID, p
	a.leaseOnly, a.lease, a.giveUp = false, 0, time.Time{}
	b.queue <- a
	<-a.done
	usage, refusal, err := a.usage, a.refusal, a.err
	a.refusal, a.err = nil, nil
	b.pool.Put(a)
	return usage, refusal, err
}

// take admits a request from the lease of its key; ok reports whether it could.
func (b *batcher) take(accountID, keyID string, p Plan) (usage Usage, ok bool) {
	usage, ok, low := b.ledger.take(accountID, keyID, &p)
	if low {
		select {
		case b.queue <- &admission{accountID: accountID, keyID: keyID, plan: p, leaseOnly: true}:
		default: // Redis is slow, and will be asked when a request has to wait
		}
	}
	return usage, ok
}

func (b *batcher) run() {
	batch := make([]*admission, 0, maxBatch)
	var retry, leaseEnd <-chan time.Time // nil: not needed
	for open := true; open; {
		select {
		case first, ok := <-b.queue:
			if open = ok; ok {
				// Yield first, so that goroutines that are ready to run can reach the queue: this makes the batches of a busy server
				// several times larger, and costs an idle one nothing.
				runtime.Gosched()
				batch = b.fill(append(batch, first))
			}
		case <-retry:
			retry = nil
		case <-leaseEnd:
			leaseEnd = nil
			b.decide(b.ledger.endLeases(leaseUse))
		}
		b.decide(batch)
		batch = b.answer(batch)
		if retry == nil && len(batch) > 0 {
			retry = b.after(leaseRetry)
		}
		if leaseEnd == nil && b.ledger.isLeasing() {
			leaseEnd = b.after(leaseUse)
		}
	}
	b.decide(b.ledger.endLeases(0))
}

// answer returns the decisions to the waiting requests. It returns those that are decided again, because leases are in the way.
func (b *batcher) answer(batch []*admission) (again []*admission) {
	again = batch[:0]
	for _, a := range batch {
		switch {
		case a.leaseOnly:
		case len(again) < maxWaiting && a.refusal != nil && a.refusal.byLeases && b.isPatient(a):
			a.refusal, a.lease = nil, 0
			again = append(again, a)
		default:
			a.done <- struct{}{}
		}
	}
	return again
}

// isPatient reports whether a request can wait for leases to be returned.
func (b *batcher) isPatient(a *admission) bool {
	now := b.clock.now()
	if a.giveUp.IsZero() {
		a.giveUp = now.Add(b.timeout)
	}
	return now.Before(a.giveUp)
}

// fill adds what is already waiting to the batch.
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

var errRedisDown = errors.New("lost the connection to Redis")

// decide sets the decisions of a batch.
func (b *batcher) decide(batch []*admission) {
	if len(batch) == 0 {
		return
	}
	if b.events.redisIsDown() {
		b.ledger.dropLeases() // of a round trip that was under way when Redis was lost
		for _, a := range batch {
			a.err = errRedisDown
		}
		return
	}
	begun := b.clock.now()
	pending := commandsOf(byAccount(batch), b.cluster)
	requests := b.ask(pending)
	var err error
	for attempt := 0; len(pending) > 0 && attempt < maxAttempts; attempt++ {
		again, failed := b.send(pending)
		if pending = again; failed != nil {
			err = failed
		}
	}
	for _, c := range pending {
		err = c.fail(c.refused)
	}
	b.metrics.observe(requests, b.clock.now().Sub(begun))
	if err != nil {
		b.events.redisDown(err)
	}
}

// ask adds to commands what Redis must have, and what they lease and return, and counts the requests that wait for them.
func (b *batcher) ask(commands []command) (requests int) {
	for _, c := range commands {
		for _, g := range c.groups {
			for admissions, waiting := range g.keys() {
				if a := admissions[0]; a.lease == 0 {
					a.lease = b.ledger.ask(a.accountID, a.keyID, &a.plan, waiting)
				}
				requests += waiting
			}
			// Once for all attempts. After a restore, Redis is compared with no more than it was given: what was admitted locally since
			// would look like another loss.
			g[0].marks = b.ledger.marks(g[0].accountID)
		}
	}
	return requests
}

// send sends commands in one pipeline. It returns those that the server has certainly not executed and that are worth sending
// again, and an error if any of the others failed.
func (b *batcher) send(commands []command) (again []command, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	sent := b.clock.now()
	deadline := b.clock.deadline(ctx)
	pipe := b.client.Pipeline()
	for i := range commands {
		c := &commands[i]
		c.reply = redis.NewIntSliceCmd(ctx, c.args(b.script.Hash(), deadline, b.ownField)...)
		_ = pipe.Process(ctx, redisconn.Once(c.reply)) // queues the command; it cannot fail
	}
	redisconn.Exec(ctx, pipe)
	full := false
	var behind []group
	for _, c := range commands {
		lost, failed := c.readReply(b.clock, b.ledger, sent)
		behind = append(behind, lost...)
		switch {
		case redis.HasErrorPrefix(failed, "NOSCRIPT"):
			c.sendSource, c.refused = true, failed
			again = append(again, c)
		case redisconn.IsFull(failed):
			full, c.refused = true, failed
			again = append(again, c)
		case errors.Is(failed, errExpired):
			c.refused = failed
			again = append(again, c)
		case failed != nil:
			err = c.fail(failed)
		}
	}
	if full {
		b.events.relieve(ctx)
	}
	restored, failed := b.restore(ctx, behind)
	return append(again, restored...), cmp.Or(err, failed)
}

// restore restores the accounts of groups, and returns the commands to decide about them.
func (b *batcher) restore(ctx context.Context, behind []group) ([]command, error) {
	if len(behind) == 0 {
		return nil, nil
	}
	ids := make([]string, len(behind))
	for i, g := range behind {
		ids[i] = g[0].accountID
		b.ledger.forfeit(ids[i])
	}
	again := commandsOf(behind, b.cluster)
	if err := b.events.restore(ctx, b.ledger.ledger(slices.Compact(ids)...)); err != nil {
		for i := range again {
			_ = again[i].fail(err)
		}
		return nil, err
	}
	for i := range again {
		again[i].refused = errBehind
	}
	return again, nil
}
