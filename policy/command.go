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

// A command is one call of admit.lua.
type command struct {
	groups     []group
	sendSource bool // the server does not have the script: send its source instead of its hash
	reply      *redis.IntSliceCmd
	refused    error // why the server did not execute it the last time
}

// A group holds the admissions of a batch for one account and one plan: either requests to decide, sorted by key, or reads of
// the usage.
type group []*admission

// keys splits the admissions by key, and yields how many of each, the first ones, wait for a decision. Reads of the usage are left out.
func (g group) keys() iter.Seq2[[]*admission, int] {
	return func(yield func([]*admission, int) bool) {
		for g := g; len(g) > 0 && g[0].keyID != ""; {
			n, waiting := 0, 0
			for ; n < len(g) && g[n].keyID == g[0].keyID; n++ {
				if !g[n].leaseOnly {
					waiting++
				}
			}
			if !yield(g[:n], waiting) {
				return
			}
			g = g[n:]
		}
	}
}

// commandsOf makes one command of all groups, or in a cluster one of each, which go to their servers in a pipeline.
func commandsOf(groups []group, cluster bool) []command {
	if !cluster {
		return []command{{groups: groups}}
	}
	commands := make([]command, len(groups))
	for i := range groups {
		commands[i].groups = groups[i : i+1]
	}
	return commands
}

// byAccount sorts the batch by account and key, keeping the order of arrival of each key, with what waits for a decision first; and
// splits it into groups.
func byAccount(batch []*admission) []group {
	slices.SortStableFunc(batch, func(a, b *admission) int {
		return cmp.Or(strings.Compare(a.accountID, b.accountID), strings.Compare(a.keyID, b.keyID), cmp.Compare(a.rank(), b.rank()))
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

// rank sorts what no request waits for behind the requests of its key.
func (a *admission) rank() int {
	if a.leaseOnly {
		return 1
	}
	return 0
}

// sameGroup reports whether two admissions can share a group.
func (a *admission) sameGroup(b *admission) bool {
	return a.accountID == b.accountID && (a.keyID == "") == (b.keyID == "") && a.plan == b.plan
}

// accountKey is the Redis key of the hash with everything about an account. In a cluster, the braces choose its slot.
func accountKey(accountID string) string { return "sara:{" + accountID + "}:use" }

// args returns the arguments of the Redis command. Strings and numbers are passed by pointer, to avoid allocations.
func (c *command) args(hash string, deadline int64, ownField string) []any {
	size := 5 // the verb, the script, the number of accounts, and after them the deadline and the own field
	for _, g := range c.groups {
		size += 9 + 3*len(g) // the account, its eight numbers, and three arguments per key
	}
	words := make([]any, 0, size)
	if c.sendSource {
		words = append(words, "eval", admitLua)
	} else {
		words = append(words, "evalsha", hash)
	}
	words = append(words, len(c.groups))
	for _, g := range c.groups {
		g[0].redisKey = accountKey(g[0].accountID)
		words = append(words, &g[0].redisKey)
	}
	words = append(words, deadline, ownField)
	for _, g := range c.groups {
		p, m := &g[0].plan, &g[0].marks
		words = append(words, &p.RequestsPerMinutePerKey, &p.RequestsPerHour, &p.RequestsPerDay, &m.ownDay, &m.knownDay, &m.leasedDay, &m.leasedHour, 0)
		keyCount, keys := len(words)-1, 0
		for admissions, waiting := range g.keys() {
			words = append(words, &admissions[0].keyID, waiting, &admissions[0].lease)
			keys++
		}
		words[keyCount] = keys
	}
	return words
}

// errBehind means that Redis has lost requests of an account, and lost them again after they were restored.
var errBehind = errors.New("counts of an account are lost again after they were restored")

// errExpired means that the server did not execute a script because its deadline had passed, or seemed to have because the
// clock jumped.
var errExpired = errors.New("script reached Redis after its deadline")

// readReply sets the decisions of the command's admissions from the reply, and records them in the ledger. It returns the groups
// of accounts of which Redis has lost requests: it has decided nothing about those.
func (c *command) readReply(clock *redisClock, ledger *MemoryBudget, sent time.Time) (behind []group, err error) {
	numbers, err := c.reply.Result()
	if err != nil {
		return nil, err
	}
	now, numbers, err := clock.read(numbers, sent)
	if err != nil {
		return nil, err
	}
	for _, g := range c.groups {
		if len(numbers) > 0 && numbers[0] < 0 {
			behind, numbers = append(behind, g), numbers[1:]
			continue
		}
		if numbers, err = g.readReply(numbers, ledger, now); err != nil {
			return nil, err
		}
	}
	if len(numbers) > 0 {
		return nil, fmt.Errorf("reply of Redis has %d numbers too many", len(numbers))
	}
	return behind, nil
}

// How many numbers of a reply are of an account, and of each of its keys.
const (
	perAccount = 4
	perKey     = 4
)

// readReply sets the decisions of the group from the start of numbers, and returns what follows.
func (g group) readReply(numbers []int64, ledger *MemoryBudget, now time.Time) (remaining []int64, err error) {
	if len(numbers) < perAccount {
		return nil, errTruncatedReply
	}
	usage := Usage{RequestsThisHour: int(numbers[0]), RequestsToday: int(numbers[1]), CallsToday: int(numbers[2]), At: now}
	v := verdict{own: numbers[3], total: usage}
	var atFirst [4]keyState // most groups have few keys
	keys := atFirst[:0]
	numbers = numbers[perAccount:]
	decisions := numbers
	p := &g[0].plan
	for admissions, waiting := range g.keys() {
		if len(numbers) < perKey {
			return nil, errTruncatedReply
		}
		if p.RequestsPerHour != unlimited {
			v.admitted += min(waiting, int(numbers[0]))
		}
		keys = append(keys, keyState{admissions[0].keyID, tokenBucket(numbers[2]), admissions[0].lease, int(numbers[3])})
		numbers = numbers[perKey:]
	}
	v.total.RequestsThisHour += v.admitted
	v.total.RequestsToday += v.admitted
	unknown := ledger.admitted(g[0].accountID, p, v, keys)
	usage.RequestsThisHour += unknown.InHour
	usage.RequestsToday += unknown.InDay
	g.decide(decisions, usage)
	return numbers, nil
}

// decide sets the decisions of the group. The first request is counted after usage.
func (g group) decide(decisions []int64, usage Usage) {
	for _, a := range g {
		a.usage = usage
	}
	for admissions, waiting := range g.keys() {
		for i, a := range admissions[:waiting] {
			if i >= int(decisions[0]) {
				a.refusal = refusalOf(decisions[1], &a.plan)
			}
			if a.refusal == nil && a.plan.RequestsPerHour != unlimited {
				usage.RequestsThisHour++
				usage.RequestsToday++
			}
			a.usage = usage
		}
		decisions = decisions[perKey:]
	}
}

var errTruncatedReply = errors.New("reply of Redis has too few numbers")

// fail marks the command's admissions as undecided, and returns err.
func (c *command) fail(err error) error {
	for _, g := range c.groups {
		for _, a := range g {
			a.err = err
		}
	}
	return err
}

// refusalOf decodes the refusal in a reply of admit.lua: 8 times the microseconds to wait, plus a number for the ceiling.
func refusalOf(number int64, p *Plan) *Refusal {
	if number == 0 {
		return nil
	}
	ceiling := [...]Ceiling{1: KeyMinute, 2: AccountHour, 3: AccountDay, 4: AccountHour, 5: AccountDay}[number%8]
	return &Refusal{Ceiling: ceiling, Limit: p.limit(ceiling), RetryAfter: time.Duration(number/8) * time.Microsecond, byLeases: number%8 >= 4}
}
