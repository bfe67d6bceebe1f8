package policy

import (
	"fmt"
	"time"
)

// allow raises the bounds by what happens next: the requests since the replica that knows least last saw their count, and the
// calls that were not charged by the replica that has charged least; and the shares of the replicas that are cut off while others
// still use Redis.
func (h *history) allow(cut []*historyReplica) {
	if h.random.IntN(2) == 0 {
		h.settle()
	}
	h.overlap = h.overlap || h.unsettled
	h.expect(cut)
}

func (h *history) expect(cut []*historyReplica) {
	h.unsettled = true
	for a := range 2 {
		account := fmt.Sprint("account", a)
		hour, day, calls := h.windows(account)
		unseenOfHour, unseenOfDay, othersCalls := 0, 0, 0
		for _, r := range h.replicas {
			known := r.fallback.Usage(account)
			unseenOfHour = max(unseenOfHour, hour.admitted-known.RequestsThisHour)
			unseenOfDay = max(unseenOfDay, day.admitted-known.RequestsToday)
			othersCalls = max(othersCalls, calls.admitted-r.fallback.accountOf(account).used.Calls)
		}
		hour.bound += unseenOfHour
		day.bound += unseenOfDay
		calls.bound += othersCalls
		for _, r := range cut {
			known, n := r.fallback.Usage(account), r.members.size()
			hour.bound += max(0, hour.limit-known.RequestsThisHour) / n
			day.bound += max(0, day.limit-known.RequestsToday) / n
			calls.bound += max(0, calls.limit-known.CallsToday) / (2 * n)
		}
	}
}

func (h *history) lose(what string, lose func()) {
	h.allow(nil)
	h.forgotten = h.forgotten || len(h.ended) > 0
	lose()
	h.setClock()
	h.note("%s", what)
}

// goAway is an outage of Redis that all replicas notice.
func (h *history) goAway() {
	h.allow(nil)
	for _, r := range h.replicas {
		r.cut.Store(true)
	}
	h.away = true
	h.advance(time.Second)
	h.tickAll()
	h.note("Redis is away")
}

// cutOff takes Redis from some replicas, or so shortly that not all notice.
func (h *history) cutOff(replicas ...*historyReplica) {
	h.allow(replicas)
	for _, r := range replicas {
		r.cut.Store(true)
	}
	h.note("%d replicas are cut off", len(replicas))
}

func (h *history) reconnect() {
	h.away = false
	for _, r := range h.replicas {
		r.cut.Store(false)
	}
	h.note("all replicas are connected")
}

// settle reconnects the replicas and gives each the turns to restore its counts, and to see that the others have.
func (h *history) settle() {
	h.reconnect()
	for n := range rejoinTicks + 2 {
		h.advance(time.Second)
		if n >= rejoinTicks {
			for _, r := range h.replicas {
				r.sinceFull = fullSyncTicks
			}
		}
		h.tickAll()
	}
	h.unsettled = false
}

// copyRedis returns the data of all keys.
func (h *history) copyRedis() map[string]string {
	keys, err := h.world.control.Keys(h.t.Context(), "sara:*").Result()
	h.must(err)
	copies := map[string]string{}
	for _, key := range keys {
		copies[key], err = h.world.control.Dump(h.t.Context(), key).Result()
		h.must(err)
	}
	return copies
}

func (h *history) restoreCopy() {
	h.must(h.world.control.FlushAll(h.t.Context()).Err())
	for key, data := range h.copies {
		h.must(h.world.control.RestoreReplace(h.t.Context(), key, 0, data).Err())
	}
}
