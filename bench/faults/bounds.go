package main

import (
	"net/http"
	"time"
)

// A loss is what a fault does to the counts in Redis. deploy/README.md ("When Redis loses counts") states what each kind may
// admit beyond a limit.
type loss int

const (
	keepsCounts    loss = iota // Redis answers all replicas and keeps what it has: nothing
	allNotice                  // Redis is down for all replicas for more than a second, or returns with less
	someNotice                 // Redis is down for only some replicas, or so briefly that not all notice
	replicaCrashes             // a replica crashes while Redis is down
	replicasStart              // all replicas are replaced while Redis is down
)

// A countedAnswer is the answer to one request of the account whose day is counted. One client sends these requests
// sequentially.
type countedAnswer struct {
	at      time.Time
	replica string
	status  int
}

// bound returns how many requests a fault that lasted from begun to ended may have admitted beyond a day.
func (l loss) bound(answers []countedAnswer, begun, ended time.Time) int {
	unseen := mostUnseen(answers, begun, ended)
	before, perSecond := 0, 0
	lastSecond := map[string][]time.Time{}
	for _, a := range answers {
		if a.status != http.StatusOK {
			continue
		}
		if a.at.Before(begun) {
			before++
		}
		times := append(lastSecond[a.replica], a.at)
		for a.at.Sub(times[0]) > time.Second {
			times = times[1:]
		}
		lastSecond[a.replica] = times
		perSecond = max(perSecond, len(times))
	}
	share := (max(0, countedADay-before) + replicas - 1) / replicas
	switch l {
	case allNotice:
		return unseen
	case someNotice:
		return unseen + (replicas-1)*share
	case replicaCrashes:
		return unseen + perSecond
	case replicasStart:
		return unseen + replicas*share
	default:
		return 0
	}
}

// mostUnseen returns how many admitted requests the least informed replica did not know of: the most that all replicas admitted between
// two consecutive requests to one of them, if the fault overlaps that interval.
func mostUnseen(answers []countedAnswer, begun, ended time.Time) (most int) {
	type request struct {
		at       time.Time
		admitted int // by all replicas until then
	}
	last, admitted := map[string]request{}, 0
	for _, a := range answers {
		if before, ok := last[a.replica]; ok && before.at.Before(ended) && a.at.After(begun) {
			most = max(most, admitted-before.admitted)
		}
		if a.status == http.StatusOK {
			admitted++
		}
		last[a.replica] = request{a.at, admitted}
	}
	return most
}
