package cache

import (
	"context"
	"encoding/binary"
	"sync"

	"sara/policy/redisconn"
)

// fillChannel is the pub/sub channel on which replicas publish the results of fills.
const fillChannel = "sara:c:notices"

// The kinds of fill events.
const (
	fillDone     = 'f' // the rows are in Redis
	fillFailed   = 'e' // the fill failed for all waiters
	fillReleased = 'r' // the lease is free
)

// fillEvent is the result of a fill.
type fillEvent struct {
	kind    byte
	failure []byte // as ErrorCodec encodes it, sealed
}

// encode returns the event for a Redis key as a message.
func (e fillEvent) encode(redisKey string) []byte {
	data := binary.AppendUvarint([]byte{e.kind}, uint64(len(redisKey)))
	return append(append(data, redisKey...), e.failure...)
}

// parseFillEvent reads a message. ok is false for anything that encode does not return.
func parseFillEvent(data string) (redisKey string, e fillEvent, ok bool) {
	if data == "" {
		return "", fillEvent{}, false
	}
	size, width := binary.Uvarint([]byte(data[1:min(len(data), 1+binary.MaxVarintLen64)]))
	if width <= 0 || size > uint64(len(data)-1-width) {
		return "", fillEvent{}, false
	}
	rest := data[1+width:]
	e = fillEvent{kind: data[0], failure: []byte(rest[size:])}
	return rest[:size], e, e.kind == fillDone || e.kind == fillFailed || e.kind == fillReleased
}

// fillEvents delivers the events of all replicas to the flights that wait for them.
type fillEvents struct {
	stop      context.CancelFunc
	listening sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]chan fillEvent // by Redis key; singleflight leaves one waiter per key
}

// subscribe listens to the channel, from now or from when Redis answers. The client resubscribes after errors.
func subscribe(client redisconn.Client) *fillEvents {
	ctx, stop := context.WithCancel(context.Background())
	events, messages := &fillEvents{stop: stop, waiting: map[string]chan fillEvent{}}, redisconn.Subscribe(ctx, client, fillChannel)
	events.listening.Go(func() {
		for message := range messages {
			if key, event, ok := parseFillEvent(message.Payload); ok {
				events.deliver(key, event)
			}
		}
	})
	return events
}

func (f *fillEvents) close() {
	f.stop()
	f.listening.Wait()
}

// expect returns the channel on which the next event of a key arrives, until cancel is called.
func (f *fillEvents) expect(redisKey string) (events <-chan fillEvent, cancel func()) {
	arrives := make(chan fillEvent, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[redisKey] = arrives
	return arrives, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.waiting[redisKey] == arrives {
			delete(f.waiting, redisKey)
		}
	}
}

// deliver passes an event to the flight that waits for it, if there is one. Only the first event counts.
func (f *fillEvents) deliver(redisKey string, e fillEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.waiting[redisKey] <- e:
	default: // no flight waits for it (a send on the nil channel), or an event has already arrived
	}
}
