package cache

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/redis/go-redis/v9"
)

// noticeChannel is where replicas tell each other how fills came out.
const noticeChannel = "sara:c:notices"

// The kinds of notices.
const (
	noticeFilled   = 'f' // there is a copy now
	noticeFailed   = 'e' // the fill failed, for everybody
	noticeReleased = 'r' // the lease is free again
)

// notice is how a fill came out.
type notice struct {
	kind    byte
	failure []byte // as ErrorCodec encodes it
}

// encode returns the notice about a key of Redis as it is published.
func (n notice) encode(key string) []byte {
	data := binary.AppendUvarint([]byte{n.kind}, uint64(len(key)))
	return append(append(data, key...), n.failure...)
}

// parseNotice returns which key a notice is about. Whatever is not one is not ok.
func parseNotice(data string) (key string, n notice, ok bool) {
	if data == "" {
		return "", notice{}, false
	}
	size, width := binary.Uvarint([]byte(data[1:min(len(data), 1+binary.MaxVarintLen64)]))
	if width <= 0 || size > uint64(len(data)-1-width) {
		return "", notice{}, false
	}
	rest := data[1+width:]
	n = notice{kind: data[0], failure: []byte(rest[size:])}
	return rest[:size], n, n.kind == noticeFilled || n.kind == noticeFailed || n.kind == noticeReleased
}

// notices hand what the other replicas tell to the fills that wait for it.
type notices struct {
	subscription *redis.PubSub
	listening    sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]chan notice // by key of Redis; the flights let only one wait
}

// listen subscribes, now or as soon as Redis answers.
func listen(client redis.UniversalClient) *notices {
	n := &notices{subscription: client.Subscribe(context.Background(), noticeChannel), waiting: map[string]chan notice{}}
	n.listening.Go(func() {
		for message := range n.subscription.Channel() {
			if key, told, ok := parseNotice(message.Payload); ok {
				n.deliver(key, told)
			}
		}
	})
	return n
}

func (n *notices) close() {
	_ = n.subscription.Close() // a connection that does not close is gone, too
	n.listening.Wait()
}

// register returns where a notice about the key arrives until forget is called.
func (n *notices) register(key string) (told <-chan notice, forget func()) {
	arrives := make(chan notice, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[key] = arrives
	return arrives, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.waiting[key] == arrives {
			delete(n.waiting, key)
		}
	}
}

// deliver hands a notice to the fill that waits for it. The first one is enough.
func (n *notices) deliver(key string, told notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.waiting[key] <- told:
	default: // nobody waits, or has been told already
	}
}
