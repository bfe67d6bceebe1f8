package policy

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sara/policy/panics"
)

const (
	// maxLookups is how many hashes one query asks for.
	maxLookups = 256

	// maxWaitingLookups bounds the memory of look-ups. A network that guesses may use one half, so that it cannot keep others
	// out.
	maxWaitingLookups = 8192

	// guessInterval is the time between two queries that are only for networks that guess.
	guessInterval = 100 * time.Millisecond
)

// errBusy means that more keys are being looked up than are allowed to wait.
var errBusy = errors.New("too many keys wait for their look-up")

// A keyFinder finds keys by their hashes: in its cache, else in the directory. It makes one query at a time, for all hashes that
// wait by then, and takes them from the networks in turn. Known keys that have to be read again, and keys from networks without
// many unknown ones, are urgent; a key from a network that guesses is looked up too, because it may be valid, but these
// queries are spaced out, and are full or rare. When many unknown keys come from ever new networks, a census shows that they are unknown.
type keyFinder struct {
	answers[Hash, *Key]
	directory Directory
	timeout   time.Duration // of one call of the directory
	misses    *minuteLimiter

	newest atomic.Pointer[answer[*Key]] // the key that was read last
	census atomic.Pointer[census]       // the last one; nil: none was taken
	plan   censusPlan                   // used by the goroutine that makes the queries

	mu         sync.Mutex // guards the following fields
	pending    map[keyQuestion]*keyLookup
	urgent     fairQueue
	patient    fairQueue
	running    bool
	lastGuess  time.Time     // when the last query for networks that guess began
	moreUrgent chan struct{} // gets a value when a look-up becomes urgent
}

// A keyQuestion is asked once at a time: an answer that was read before a change must not be used after it.
type keyQuestion struct {
	hash    Hash
	version version
}

// A keyLookup is a question that waits for its answer.
type keyLookup struct {
	keyQuestion
	network string
	next    *keyLookup      // in its lane of a fairQueue
	ctx     context.Context // of the request that asked first, for its trace
	done    chan struct{}   // closed when the following fields are set
	answer  answer[*Key]
	err     error
}

func newKeyFinder(c *Config, misses *minuteLimiter) *keyFinder {
	return &keyFinder{answers: newAnswers[Hash, *Key](c.Now, answerTTL, maxCachedAnswers), directory: c.Directory, timeout: c.LookupTimeout,
		misses: misses, pending: map[keyQuestion]*keyLookup{}, moreUrgent: make(chan struct{}, 1)}
}

// get returns the key with a hash, for a request from an address. The caller reads the version first.
func (f *keyFinder) get(ctx context.Context, hash Hash, address string, version version) (*Key, error) {
	now, q := f.now(), keyQuestion{hash, version}
	cached, ok := f.cached(now, hash, version)
	if ok && f.isFresh(now, &cached) {
		return cached.value, cached.err
	}
	l, err := f.enqueue(ctx, q, Network(address))
	if ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cached.patience(now))
		defer cancel()
	}
	if err == nil {
		select {
		case <-l.done:
			err = l.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	panics.Repanic(err)
	switch {
	case err == nil:
		return l.answer.value, l.answer.err
	case ok:
		return cached.value, cached.err // stale
	}
	return nil, err
}

// enqueue returns the look-up for a question, and makes sure that it will be answered.
func (f *keyFinder) enqueue(ctx context.Context, q keyQuestion, network string) (*keyLookup, error) {
	known, guesses := f.knows(q.hash), f.misses.isExhausted(network)
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.pending[q]; l != nil {
		return l, nil
	}
	isPatient := !known && (guesses || f.urgent.waiting(network) >= maxUnknownKeys)
	if len(f.pending) >= maxWaitingLookups || isPatient && len(f.pending) >= maxWaitingLookups/2 {
		return nil, errBusy
	}
	l := &keyLookup{keyQuestion: q, network: network, ctx: ctx, done: make(chan struct{})}
	f.pending[q] = l
	if isPatient {
		f.patient.push(l)
	} else {
		f.urgent.push(l)
	}
	switch {
	case !f.running:
		f.running = true
		go f.run()
	case !isPatient || f.patient.size >= maxLookups:
		select {
		case f.moreUrgent <- struct{}{}:
		default:
		}
	}
	return l, nil
}

// run makes queries until no look-up waits.
func (f *keyFinder) run() {
	for {
		runtime.Gosched() // so that goroutines that are ready to run can join the query
		batch, wait := f.next()
		switch {
		case len(batch) > 0:
			f.answer(batch)
		case wait > 0:
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-f.moreUrgent:
				timer.Stop()
			}
		default:
			return
		}
	}
}

// next takes the look-ups of the next query. If none is due, it returns how long to wait; zero if none
// waits, which ends the run.
func (f *keyFinder) next() (batch []*keyLookup, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.urgent.size+f.patient.size == 0 {
		f.running = false
		return nil, 0
	}
	if f.urgent.size == 0 && f.patient.size < maxLookups {
		if wait = guessInterval - time.Since(f.lastGuess); wait > 0 {
			return nil, wait
		}
	}
	batch = f.urgent.pop(nil, maxLookups)
	if f.patient.size > 0 && len(batch) < maxLookups {
		batch = f.patient.pop(batch, maxLookups-len(batch))
		f.lastGuess = time.Now()
	}
	return batch, 0
}

// answer makes one query for a batch of look-ups, and wakes those that wait for them. When the directory does not answer in
// time, the look-ups that came meanwhile fail too, instead of waiting for the next timeout.
func (f *keyFinder) answer(batch []*keyLookup) {
	begun := f.now()
	ask := batch[:0:0]
	hashes := make([]Hash, 0, len(batch))
	for _, l := range batch {
		if a, ok := f.begin(begun, l.hash, l.version); ok {
			l.answer = a // another look-up has finished since the request looked
			f.finished(l)
			continue
		}
		ask, hashes = append(ask, l), append(hashes, l.hash)
	}
	if len(ask) == 0 {
		return
	}
	keys, err := f.query(begun, ask, hashes)
	if errors.Is(err, context.DeadlineExceeded) {
		ask = f.drain(ask)
	}
	for _, l := range ask {
		f.settle(l, begun, keys, err)
		f.finished(l)
	}
}

func (f *keyFinder) settle(l *keyLookup, begun time.Time, keys map[Hash]Key, err error) {
	if _, isBug := errors.AsType[*panics.Error](err); isBug {
		l.err = err
		return
	}
	key, err := foundKey(keys, l.hash, err)
	l.answer, l.err = f.finish(begun, l.hash, l.version, key, err)
	if err == nil { // else a stale answer, which is not new
		newest := l.answer
		f.newest.Store(&newest)
	}
}

func foundKey(keys map[Hash]Key, hash Hash, err error) (*Key, error) {
	if err != nil {
		return nil, err
	}
	key, ok := keys[hash]
	if !ok {
		return nil, ErrUnknown
	}
	found := key // only a key that is found takes memory
	return &found, nil
}

// query asks the directory for the keys of a batch, except for those that a census shows to be unknown. It takes a census first if one is due.
func (f *keyFinder) query(begun time.Time, batch []*keyLookup, hashes []Hash) (keys map[Hash]Key, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), f.timeout)
	defer cancel()
	defer panics.Recover(&err)
	if f.plan.isDue() {
		f.takeCensus(ctx, begun, batch[0].version)
	}
	if hashes, err = f.withoutUnknown(ctx, begun, batch, hashes); err != nil || len(hashes) == 0 {
		return nil, err
	}
	if keys, err = f.directory.FindKeys(ctx, hashes); err == nil {
		f.plan.unknown += len(hashes) - len(keys)
	}
	return keys, err
}

// drain appends all waiting look-ups to a batch.
func (f *keyFinder) drain(batch []*keyLookup) []*keyLookup {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch = f.urgent.pop(batch, f.urgent.size)
	return f.patient.pop(batch, f.patient.size)
}

// finished ends a look-up, and wakes those that wait for it.
func (f *keyFinder) finished(l *keyLookup) {
	f.mu.Lock()
	delete(f.pending, l.keyQuestion)
	f.mu.Unlock()
	close(l.done)
}
