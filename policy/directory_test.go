package policy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fakeDirectory answers from maps, counts its calls, and fails or blocks on demand.
type fakeDirectory struct {
	mu           sync.Mutex
	keys         map[Hash]Key
	properties   map[propertyQuery][]Property
	failure      error
	blocked      chan struct{} // calls return once this is closed; nil: at once
	bug          any           // FindKeys and KeyHashes panic with it; nil: they do not
	lookups      int           // of keys and properties
	asked        int           // hashes
	listing      error         // KeyHashes fails with it; context.DeadlineExceeded: once its time is up
	listings     []int         // the limits of the calls of KeyHashes
	edition      uint64
	editionReads int
	generation   atomic.Uint64
}

var (
	_ Directory = (*fakeDirectory)(nil)

	errDirectoryDown = errors.New("the directory is down")
)

func (d *fakeDirectory) Generation() uint64 { return d.generation.Load() }

func (d *fakeDirectory) Edition(ctx context.Context) (uint64, error) {
	d.mu.Lock()
	edition, err, hang := d.edition, d.failure, d.blocked
	d.editionReads++
	d.mu.Unlock()
	return edition, answerAfter(ctx, hang, err)
}

func (d *fakeDirectory) FindKeys(ctx context.Context, hashes []Hash) (map[Hash]Key, error) {
	d.mu.Lock()
	found := map[Hash]Key{}
	for _, hash := range hashes {
		if key, ok := d.keys[hash]; ok {
			found[hash] = key
		}
	}
	err, hang, bug := d.failure, d.blocked, d.bug
	d.lookups++
	d.asked += len(hashes)
	d.mu.Unlock()
	if bug != nil {
		panic(bug)
	}
	return found, answerAfter(ctx, hang, err)
}

func (d *fakeDirectory) KeyHashes(ctx context.Context, limit int) ([]Hash, error) {
	d.mu.Lock()
	hashes := slices.Collect(maps.Keys(d.keys))
	err, hang, bug := cmp.Or(d.listing, d.failure), d.blocked, d.bug
	d.listings = append(d.listings, limit)
	d.mu.Unlock()
	if bug != nil {
		panic(bug)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	return hashes[:min(limit, len(hashes))], answerAfter(ctx, hang, err)
}

func (d *fakeDirectory) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]Property, error) {
	d.mu.Lock()
	found := d.properties[propertyQuery{personID, workspaceID, reference}]
	err, hang := d.failure, d.blocked
	d.lookups++
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

// changeElsewhere changes the directory like another process: its generation stays the same.
func (d *fakeDirectory) changeElsewhere(do func()) {
	d.set(func() {
		do()
		d.edition++
	})
}

// set changes the directory, or its behaviour, without a new edition.
func (d *fakeDirectory) set(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// changeHere changes the directory like its own process.
func (d *fakeDirectory) changeHere(do func()) {
	d.changeElsewhere(do)
	d.generation.Add(1)
}

func (d *fakeDirectory) fail(err error) { d.set(func() { d.failure = err }) }

// block makes the calls that follow wait for release. Calls that are already blocked stay so.
func (d *fakeDirectory) block() (release func()) {
	hang := make(chan struct{})
	d.set(func() { d.blocked = hang })
	return sync.OnceFunc(func() { close(hang) })
}

func (d *fakeDirectory) unblock() { d.set(func() { d.blocked = nil }) }

func (d *fakeDirectory) calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lookups
}

// An unlimitedBudget admits everything.
type unlimitedBudget struct{}

func (unlimitedBudget) Admit(string, string, Plan) (Usage, *Refusal) {
	return Usage{}, nil
}
func (unlimitedBudget) ChargeMinute(string, string, Plan) (Usage, *Refusal) {
	return Usage{}, nil
}
func (unlimitedBudget) Usage(string) Usage { return Usage{} }
func (unlimitedBudget) ChargeLiveCalls(string, string, int, Plan) *Refusal {
	return nil
}
func (unlimitedBudget) RefundLiveCalls(string, int, time.Time) {}

// A fixture is a gate over a fake directory with one valid key, and one property that its person can reach.
type fixture struct {
	*Gate
	directory *fakeDirectory
	clock     *manualClock
	addresses atomic.Int64
}

// Keys of the first form, without a checksum.
var (
	validKeyText   = "sara_live_" + strings.Repeat("GOOD", 13)
	unknownKeyText = "sara_live_" + strings.Repeat("NONE", 13)
)

func validKey() Key {
	return Key{ID: "k1", Scopes: AllScopes, PersonID: "p1", AccountID: "a1", PlanName: "pro"}
}

func newFixture(t testing.TB) *fixture {
	c := clockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return newFixtureAt(t, c, c.now)
}

// newSynctestFixture uses the time of a synctest bubble.
func newSynctestFixture(t testing.TB) *fixture { return newFixtureAt(t, nil, time.Now) }

func newFixtureAt(t testing.TB, c *manualClock, now func() time.Time) *fixture {
	t.Helper()
	d := &fakeDirectory{
		keys:       map[Hash]Key{hashKey(validKeyText): validKey()},
		properties: map[propertyQuery][]Property{{"p1", "", "shop"}: {{ID: "shop-of-p1", Slug: "shop"}}},
	}
	gate := NewGate(Config{Directory: d, Plans: DefaultPlans(), Budget: unlimitedBudget{}, KeyPrefix: "sara", Now: now})
	return &fixture{Gate: gate, directory: d, clock: c}
}

// edit changes the valid key like another process.
func (w *fixture) edit(do func(k *Key)) { w.directory.changeElsewhere(func() { w.directory.edit(do) }) }

func (d *fakeDirectory) edit(do func(k *Key)) {
	key := d.keys[hashKey(validKeyText)]
	do(&key)
	d.keys[hashKey(validKeyText)] = key
}

func revoke(k *Key) { k.RevokedAt = k.RevokedAt.Add(1) }

// request calls Admit from a new client address.
func (w *fixture) request(ctx context.Context, authorization string, need Scopes) (*Grant, error) {
	address := strconv.FormatInt(w.addresses.Add(1), 10)
	return w.Admit(ctx, Request{Authorization: authorization, Address: address, RequiredScopes: need})
}

// admit requests no scope with the valid key, and returns the code of a denial.
func (w *fixture) admit(ctx context.Context) (code string, err error) {
	_, err = w.request(ctx, "Bearer "+validKeyText, 0)
	return codeOf(err)
}

// find resolves a property for the valid key.
func (w *fixture) find(ctx context.Context, reference string) (code string, err error) {
	key := validKey()
	now, err := w.version(ctx)
	if err == nil {
		_, err = w.Property(ctx, &Grant{Key: &key, version: now}, reference)
	}
	return codeOf(err)
}

// codeOf returns the code of a denial, or else the error.
func codeOf(err error) (code string, failure error) {
	var denial *Denial
	if errors.As(err, &denial) {
		return denial.Code, nil
	}
	return "", err
}

// wantCode checks the results of admit or find; no code and no error means success.
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
		t.Errorf("the directory was called %d times, want %d", got, calls)
	}
}
