package policy

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed script/admit.lua
var admitScript string

//go:embed script/charge.lua
var chargeScript string

const (
	maxBatch   = 256 // admissions in one round trip
	maxFlights = 2   // round trips at once: one on the wire while the next one gathers
)

// An admission is one request that waits for the shared counter's decision; without a key it only asks for the usage.
type admission struct {
	accountID, keyID string
	plan             Plan
	done             chan struct{} // gets one value when the rest is decided

	usage   Usage
	refusal *Refusal
	err     error // the counter did not decide
}

// A batcher sends the admissions that wait at the same time in one round trip. It needs no timer to gather them: what
// arrives while a round trip is under way makes the next one, so that an idle server adds no delay and a busy one fills
// its batches.
type batcher struct {
	client  redis.UniversalClient
	cluster bool // the keys of two accounts may live on two servers
	script  *redis.Script
	away    func() bool // whether to ask at all
	lost    func(error) // told when the server did not decide, before those who wait are

	queue chan *admission
	pool  sync.Pool
	done  sync.WaitGroup
}

func newBatcher(client redis.UniversalClient, away func() bool, lost func(error)) *batcher {
	_, cluster := client.(*redis.ClusterClient)
	b := &batcher{client: client, cluster: cluster, script: redis.NewScript(admitScript), away: away, lost: lost,
		queue: make(chan *admission, maxBatch)}
	b.pool.New = func() any { return &admission{done: make(chan struct{}, 1)} }
	for range maxFlights {
		b.done.Go(b.run)
	}
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
		batch = b.gather(append(batch[:0], first))
		b.decide(batch)
		for _, a := range batch {
			a.done <- struct{}{}
		}
	}
}

// gather adds to the batch what waits already.
func (b *batcher) gather(batch []*admission) []*admission {
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

// decide fills in the decisions on a batch. On a cluster every account is a command of its own in one pipeline, which
// travels to each server at once; elsewhere all of it is one command.
func (b *batcher) decide(batch []*admission) {
	if b.away() {
		for _, a := range batch {
			a.err = errAway
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tripTimeout)
	defer cancel()
	groups := byAccount(batch)
	commands := [][]group{groups}
	if b.cluster {
		commands = slices.Collect(slices.Chunk(groups, 1))
	}
	if err := b.ask(ctx, commands); err != nil {
		b.lost(err)
	}
}

var errAway = errors.New("the shared counter is away")

// A group is what a batch has of one account: requests to decide on, and questions for the usage.
type group struct {
	requests, questions []*admission
}

// first returns one of the group, whose account and plan are those of all.
func (g *group) first() *admission {
	if len(g.requests) > 0 {
		return g.requests[0]
	}
	return g.questions[0]
}

// byAccount groups admissions by account and plan, in the order of arrival.
func byAccount(batch []*admission) []group {
	type owner struct {
		account string
		plan    Plan
	}
	places := make(map[owner]int, len(batch))
	var groups []group
	for _, a := range batch {
		o := owner{a.accountID, a.plan}
		i, ok := places[o]
		if !ok {
			i = len(groups)
			places[o] = i
			groups = append(groups, group{})
		}
		if a.keyID == "" {
			groups[i].questions = append(groups[i].questions, a)
		} else {
			groups[i].requests = append(groups[i].requests, a)
		}
	}
	return groups
}

// ask sends one command for each list of groups, and returns an error of one that was not decided. A server that has lost
// the script, after a restart or a failover, has decided nothing: it is sent along then.
func (b *batcher) ask(ctx context.Context, commands [][]group) (failed error) {
	for attempt := range 2 {
		pipe := b.client.Pipeline()
		answers := make([]*redis.Cmd, len(commands))
		for i, groups := range commands {
			keys, arguments := admitArguments(groups)
			if attempt == 0 {
				answers[i] = b.script.EvalSha(ctx, pipe, keys, arguments...)
			} else {
				answers[i] = b.script.Eval(ctx, pipe, keys, arguments...)
			}
		}
		// The error of the pipeline is the first of its commands'; each is looked at below.
		_, _ = pipe.Exec(ctx)
		var again [][]group
		for i, groups := range commands {
			if attempt == 0 && redis.HasErrorPrefix(answers[i].Err(), "NOSCRIPT") {
				again = append(again, groups)
			} else if err := settle(groups, answers[i]); err != nil {
				failed = err
			}
		}
		if len(again) == 0 {
			break
		}
		commands = again
	}
	return failed
}

// accountKey is the one key of an account; its braces keep everything of the account on one server of a cluster.
func accountKey(accountID string) string { return "sara:{" + accountID + "}:use" }

func admitArguments(groups []group) (keys []string, arguments []any) {
	keys = make([]string, len(groups))
	for i := range groups {
		first := groups[i].first()
		keys[i] = accountKey(first.accountID)
		p := &first.plan
		arguments = append(arguments, p.RequestsPerMinutePerKey, p.RequestsPerHour, p.RequestsPerDay, len(groups[i].requests))
		for _, a := range groups[i].requests {
			arguments = append(arguments, a.keyID)
		}
	}
	return keys, arguments
}

// settle reads the answer to one command into the admissions that it decided.
func settle(groups []group, answer *redis.Cmd) error {
	numbers, err := answer.Int64Slice()
	want := 2
	for _, g := range groups {
		want += 3 + 4*len(g.requests)
	}
	if err == nil && len(numbers) != want {
		err = fmt.Errorf("the shared counter answers %d numbers, not %d", len(numbers), want)
	}
	if err != nil {
		for _, g := range groups {
			for _, a := range slices.Concat(g.requests, g.questions) {
				a.err = err
			}
		}
		return err
	}
	now := time.Unix(numbers[0], numbers[1]*int64(time.Microsecond))
	numbers = numbers[2:]
	for _, g := range groups {
		before := Usage{RequestsThisHour: int(numbers[0]), RequestsToday: int(numbers[1]), CallsToday: int(numbers[2]), At: now}
		numbers = numbers[3:]
		for _, a := range g.questions {
			a.usage = before
		}
		for _, a := range g.requests {
			a.usage = Usage{RequestsThisHour: int(numbers[2]), RequestsToday: int(numbers[3]), CallsToday: before.CallsToday, At: now}
			a.refusal = refusalOf(numbers[0], numbers[1], &a.plan, now)
			numbers = numbers[4:]
		}
	}
	return nil
}

// refusalOf reads the ceiling of a decision as admit.lua writes it.
func refusalOf(ceiling, wait int64, p *Plan, now time.Time) *Refusal {
	switch ceiling {
	case 0:
		return nil
	case 1:
		return &Refusal{KeyMinute, p.RequestsPerMinutePerKey, time.Duration(wait) * time.Microsecond}
	case 2:
		return &Refusal{AccountHour, p.RequestsPerHour, untilNext(now, hourSeconds)}
	}
	return &Refusal{AccountDay, p.RequestsPerDay, untilNext(now, daySeconds)}
}
