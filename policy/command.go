package policy

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A command is one call of the script admit.lua.
type command struct {
	groups     []group
	sendSource bool // the server does not have the script
	reply      *redis.IntSliceCmd
}

// A group is what a batch has of one account under one plan: either requests to decide on, those of each key together, or
// questions for the usage.
type group []*admission

// keys cuts the requests to decide on by their key.
func (g group) keys() iter.Seq[[]*admission] {
	return func(yield func([]*admission) bool) {
		for rest := g; len(rest) > 0 && rest[0].keyID != ""; {
			n := 1
			for n < len(rest) && rest[n].keyID == rest[0].keyID {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// commandsFor is a batch as commands: on a cluster one an account, which travel to each server in one pipeline; elsewhere
// one for all.
func commandsFor(batch []*admission, cluster bool) []command {
	groups := byAccount(batch)
	if !cluster {
		return []command{{groups: groups}}
	}
	commands := make([]command, len(groups))
	for i := range groups {
		commands[i].groups = groups[i : i+1]
	}
	return commands
}

// byAccount sorts the batch by account and key, each key's in the order of arrival, and cuts it into groups.
func byAccount(batch []*admission) []group {
	slices.SortStableFunc(batch, func(a, b *admission) int {
		return cmp.Or(strings.Compare(a.accountID, b.accountID), strings.Compare(a.keyID, b.keyID))
	})
	groups := make([]group, 0, len(batch))
	begin := 0
	for i, a := range batch {
		if i+1 == len(batch) || !a.sameGroup(batch[i+1]) {
			groups = append(groups, batch[begin:i+1])
			begin = i + 1
		}
	}
	return groups
}

// together reports whether two admissions can be of one group.
func (a *admission) sameGroup(b *admission) bool {
	return a.accountID == b.accountID && (a.keyID == "") == (b.keyID == "") && a.plan == b.plan
}

// accountKey is the one key of an account; its braces keep everything of the account on one server of a cluster.
func accountKey(accountID string) string { return "sara:{" + accountID + "}:use" }

// firstKey is where the keys begin in a call of a script.
const firstKey = 3

// words is the call of the script as Redis reads it. Most are pointers, which cost no allocation.
func (c *command) args(hash string, deadline int64) []any {
	size := firstKey + 1
	for _, g := range c.groups {
		size += 5 + 2*len(g) // the account, its four numbers, and two words for each key
	}
	words := make([]any, 0, size)
	if c.sendSource {
		words = append(words, "eval", admitLua)
	} else {
		words = append(words, "evalsha", hash)
	}
	words = append(words, len(c.groups))
	for _, g := range c.groups {
		g[0].key = accountKey(g[0].accountID)
		words = append(words, &g[0].key)
	}
	words = append(words, deadline)
	for _, g := range c.groups {
		p := &g[0].plan
		words = append(words, &p.RequestsPerMinutePerKey, &p.RequestsPerHour, &p.RequestsPerDay, 0)
		number, keys := len(words)-1, 0
		for requests := range g.keys() {
			words = append(words, &requests[0].keyID, len(requests))
			keys++
		}
		words[number] = keys
	}
	return words
}

// errLate is a command that the server got to only when nobody would have waited for it any more, or so it seemed by a
// clock that has jumped.
var errExpired = errors.New("the shared counter was too late")

// settle reads the answer into the admissions that it decides.
func (c *command) readReply(clock *redisClock, asked time.Time) error {
	numbers, err := c.reply.Result()
	if err != nil {
		return err
	}
	now, numbers, err := clock.read(numbers, asked)
	if err != nil {
		return err
	}
	for _, g := range c.groups {
		if numbers, err = g.readReply(numbers, now); err != nil {
			return err
		}
	}
	if len(numbers) > 0 {
		return fmt.Errorf("the shared counter answers %d numbers too many", len(numbers))
	}
	return nil
}

// settle reads the part of the answer that decides on the group, and returns the rest of it.
func (g group) readReply(numbers []int64, now time.Time) (rest []int64, err error) {
	const (
		ofAccount = 3
		ofKey     = 2
	)
	if len(numbers) < ofAccount {
		return nil, errTruncatedReply
	}
	usage := Usage{RequestsThisHour: int(numbers[0]), RequestsToday: int(numbers[1]), CallsToday: int(numbers[2]), At: now}
	for _, a := range g {
		a.usage = usage
	}
	numbers = numbers[ofAccount:]
	for requests := range g.keys() {
		if len(numbers) < ofKey {
			return nil, errTruncatedReply
		}
		for i, a := range requests {
			if i >= int(numbers[0]) {
				a.refusal = refusalOf(numbers[1], &a.plan)
			}
			if a.refusal == nil {
				usage.RequestsThisHour++
				usage.RequestsToday++
			}
			a.usage = usage
		}
		numbers = numbers[ofKey:]
	}
	return numbers, nil
}

var errTruncatedReply = errors.New("the shared counter answers too few numbers")

// fail leaves the admissions undecided, and returns why.
func (c *command) fail(err error) error {
	for _, g := range c.groups {
		for _, a := range g {
			a.err = err
		}
	}
	return err
}

// refusalOf reads what admit.lua says of the requests of a key that do not fit.
func refusalOf(number int64, p *Plan) *Refusal {
	if number == 0 {
		return nil
	}
	ceiling := [...]Ceiling{1: KeyMinute, 2: AccountHour, 3: AccountDay}[number%4]
	return &Refusal{ceiling, p.limit(ceiling), time.Duration(number/4) * time.Microsecond}
}
