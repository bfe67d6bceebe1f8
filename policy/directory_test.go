package policy

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A stillClock stands still until it is moved.
type stillClock struct{ nanoseconds atomic.Int64 }

func (c *stillClock) now() time.Time          { return time.Unix(0, c.nanoseconds.Load()).UTC() }
func (c *stillClock) set(at time.Time)        { c.nanoseconds.Store(at.UnixNano()) }
func (c *stillClock) advance(d time.Duration) { c.nanoseconds.Add(int64(d)) }

// A fakeDirectory answers from memory, counts what it is asked, and fails or hangs when it is told to.
type fakeDirectory struct {
	mu         sync.Mutex
	keys       map[Hash]Key
	properties map[propertyQuery][]Property
	failure    error
	hang       chan struct{} // what was read is answered once this is closed; nil: at once
	asked      int           // about keys and properties
	edition    uint64
	looked     int // for the edition
	generation atomic.Uint64
}

var (
	_ Directory = (*fakeDirectory)(nil)

	errDown = errors.New("the directory is down")
)

func (d *fakeDirectory) Generation() uint64 { return d.generation.Load() }

func (d *fakeDirectory) Edition(ctx context.Context) (uint64, error) {
	d.mu.Lock()
	edition, err, hang := d.edition, d.failure, d.hang
	d.looked++
	d.mu.Unlock()
	return edition, answerAfter(ctx, hang, err)
}

func (d *fakeDirectory) Key(ctx context.Context, hash Hash) (Key, error) {
	d.mu.Lock()
	key, ok := d.keys[hash]
	err, hang := d.failure, d.hang
	d.asked++
	d.mu.Unlock()
	if err == nil && !ok {
		err = ErrUnknown
	}
	return key, answerAfter(ctx, hang, err)
}

func (d *fakeDirectory) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]Property, error) {
	d.mu.Lock()
	found := d.properties[propertyQuery{personID, workspaceID, reference}]
	err, hang := d.failure, d.hang
	d.asked++
	d.mu.Unlock()
	return found, answerAfter(ctx, hang, err)
}

func answerAfter(ctx context.Context, hang chan struct{}, err error) error {
	if hang == nil {
		return err
	}
	select {
	case <-hang:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change changes the directory as another process does: the generation stays.
func (d *fakeDirectory) change(do func()) {
	d.set(func() {
		do()
		d.edition++
	})
}

// set changes the directory, or how it behaves, in a way that it does not know of.
func (d *fakeDirectory) set(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// write changes the directory as its own process does.
func (d *fakeDirectory) write(do func()) {
	d.change(do)
	d.generation.Add(1)
}

func (d *fakeDirectory) fail(err error) { d.set(func() { d.failure = err }) }

// hold makes what is asked from now on wait for release. What was held before stays held.
func (d *fakeDirectory) hold() (release func()) {
	hang := make(chan struct{})
	d.set(func() { d.hang = hang })
	return sync.OnceFunc(func() { close(hang) })
}

func (d *fakeDirectory) unhold() { d.set(func() { d.hang = nil }) }

func (d *fakeDirectory) calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// boundless is a budget that is never used up.
type boundless struct{}

func (boundless) Admit(context.Context, string, string, Plan) (Usage, *Refusal)       { return Usage{}, nil }
func (boundless) Usage(context.Context, string) Usage                                 { return Usage{} }
func (boundless) ChargeLiveCalls(context.Context, string, string, int, Plan) *Refusal { return nil }
func (boundless) RefundLiveCalls(context.Context, string, int, time.Time)             {}

// A world is a gate over a fake directory with one good key, and one property that its person reaches.
type world struct {
	*Gate
	directory *fakeDirectory
	clock     *stillClock
	addresses atomic.Int64
}

const goodKey = "sara_live_GOOD"

func good() Key {
	return Key{ID: "k1", Scopes: AllScopes, PersonID: "p1", AccountID: "a1", PlanName: "pro"}
}

func newWorld(t testing.TB) *world {
	c := &stillClock{}
	c.set(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return newWorldAt(t, c, c.now)
}

// newRealWorld runs on the time of a synctest bubble.
func newRealWorld(t testing.TB) *world { return newWorldAt(t, nil, time.Now) }

func newWorldAt(t testing.TB, c *stillClock, now func() time.Time) *world {
	t.Helper()
	d := &fakeDirectory{
		keys:       map[Hash]Key{HashKey(goodKey): good()},
		properties: map[propertyQuery][]Property{{"p1", "", "shop"}: {{ID: "shop-of-p1", Slug: "shop"}}},
	}
	gate, err := NewGate(Config{Directory: d, Plans: DefaultPlans(), Budget: boundless{}, KeyPrefix: "sara", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return &world{Gate: gate, directory: d, clock: c}
}

// edit changes the good key as another process does.
func (w *world) edit(do func(k *Key)) { w.directory.change(func() { w.directory.edit(do) }) }

func (d *fakeDirectory) edit(do func(k *Key)) {
	key := d.keys[HashKey(goodKey)]
	do(&key)
	d.keys[HashKey(goodKey)] = key
}

func revoke(k *Key) { k.Revoked = true }

// request admits a request that comes from an address of its own.
func (w *world) request(ctx context.Context, authorization string, need Scopes) (*Grant, error) {
	address := strconv.FormatInt(w.addresses.Add(1), 10)
	return w.Admit(ctx, Request{Authorization: authorization, Address: address, RequiredScopes: need})
}

// admit asks for any scope at all with the good key, and returns the code of a denial.
func (w *world) admit(ctx context.Context) (code string, err error) {
	_, err = w.request(ctx, "Bearer "+goodKey, 0)
	return codeOf(err)
}

// find looks for a property on behalf of the good key.
func (w *world) find(ctx context.Context, reference string) (code string, err error) {
	key := good()
	now, err := w.version(ctx)
	if err == nil {
		_, err = w.Property(ctx, &Grant{Key: &key, version: now}, reference)
	}
	return codeOf(err)
}

// codeOf returns the code of a denial, and an error that is none.
func codeOf(err error) (code string, failure error) {
	var denial *Denial
	if errors.As(err, &denial) {
		return denial.Code, nil
	}
	return "", err
}

// wantCode checks one outcome of admit or find: no code and no error is success.
func wantCode(t testing.TB, code string, failure error) func(gotCode string, gotErr error) {
	t.Helper()
	return func(gotCode string, gotErr error) {
		t.Helper()
		if gotCode != code || !errors.Is(gotErr, failure) {
			t.Errorf("got %q, %v; want %q, %v", gotCode, gotErr, code, failure)
		}
	}
}

func wantCalls(t testing.TB, d *fakeDirectory, calls int) {
	t.Helper()
	if got := d.calls(); got != calls {
		t.Errorf("the directory was asked %d times, want %d", got, calls)
	}
}
