package fillbudget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newBudget(t testing.TB, c Config) *Budget {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func acquire(t testing.TB, b *Budget, c Claim) *Grant {
	t.Helper()
	g, err := b.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A line is a queue of claims that each wait in a goroutine, in a bubble of synctest.
type line struct {
	t       *testing.T
	budget  *Budget
	mu      sync.Mutex // guards the fields below while goroutines run
	granted []string
	grants  map[string]*Grant
	errs    map[string]error
}

func newLine(t *testing.T, c Config) *line {
	return &line{t: t, budget: newBudget(t, c), grants: map[string]*Grant{}, errs: map[string]error{}}
}

// wait makes a claim wait, after those that are already waiting.
func (l *line) wait(ctx context.Context, name string, c Claim) {
	l.t.Helper()
	go func() {
		g, err := l.budget.Acquire(ctx, c)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.errs[name] = err
			return
		}
		l.granted = append(l.granted, name)
		l.grants[name] = g
	}()
	synctest.Wait()
}

func (l *line) release(name string) {
	l.t.Helper()
	l.grants[name].Release()
	synctest.Wait()
}

func (l *line) want(names ...string) {
	l.t.Helper()
	if !slices.Equal(l.granted, names) {
		l.t.Errorf("granted %v, want %v", l.granted, names)
	}
}

const (
	large = 300 // three fit in a budget of 1,000 with its reserve of 125
	small = 30  // four fit in the reserve
)

func TestTurnsGoRoundRobinByAccountAndKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 400})
		l.wait(t.Context(), "first", Claim{Account: "z", Bytes: 350})
		for _, name := range []string{"a1-1", "a1-2", "a1-3", "a2-1", "a2-2", "b1-1", "b1-2"} {
			l.wait(t.Context(), name, Claim{Account: name[:1], Key: name[:2], Bytes: 350})
		}
		for _, next := range []string{"first", "a1-1", "b1-1", "a2-1", "b1-2", "a1-2", "a2-2"} {
			l.release(next)
		}
		l.want("first", "a1-1", "b1-1", "a2-1", "b1-2", "a1-2", "a2-2", "a1-3")
	})
}

func TestFillsOfARequestFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 400})
		for _, name := range []string{"a1-x", "a1-y", "a1-z", "a2-x", "b1-x", "a1-x'", "a1-y'", "b1-x'"} {
			l.wait(t.Context(), name, Claim{Account: name[:1], Key: name[:2], Request: name[:4], Bytes: 350})
		}
		for _, next := range []string{"a1-x", "a1-y", "b1-x", "a1-y'", "b1-x'", "a2-x", "a1-z"} {
			l.release(next)
		}
		l.want("a1-x", "a1-y", "b1-x", "a1-y'", "b1-x'", "a2-x", "a1-z", "a1-x'")
	})
}

func TestAnAccountHasAtMostItsFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000, PerAccount: 2})
		for _, name := range []string{"a1", "a2", "a3", "b1"} {
			l.wait(t.Context(), name, Claim{Account: name[:1], Bytes: small})
		}
		l.want("a1", "a2", "b1")
		l.release("b1")
		l.want("a1", "a2", "b1")
		l.release("a1")
		l.want("a1", "a2", "b1", "a3")
	})
}

func TestSmallClaimsHaveAReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000})
		for _, name := range []string{"A", "B"} {
			l.wait(t.Context(), name, Claim{Account: "heavy", Bytes: large})
		}
		l.wait(t.Context(), "C", Claim{Account: "heavy", Bytes: large}) // 900 of 875
		for _, name := range []string{"s1", "s2", "s3", "s4"} {
			l.wait(t.Context(), name, Claim{Account: name, Bytes: small})
		}
		l.wait(t.Context(), "s5", Claim{Account: "s5", Bytes: small}) // 150 of 125, and a large claim waits
		l.want("A", "B", "s1", "s2", "s3", "s4")
		l.release("s1")
		l.want("A", "B", "s1", "s2", "s3", "s4", "s5")
		l.release("A")
		l.want("A", "B", "s1", "s2", "s3", "s4", "s5", "C")
	})
}

// A small claim does not wait behind a large one of another key of its account, and does not take the turn of that one.
func TestSmallClaimsOfOtherKeysHaveAReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000})
		for _, name := range []string{"A", "B", "C"} {
			l.wait(t.Context(), name, Claim{Account: "a", Key: "export", Bytes: large}) // 900 of 875
		}
		l.wait(t.Context(), "D", Claim{Account: "b", Bytes: large})
		for _, name := range []string{"s1", "s2", "s3", "s4"} {
			l.wait(t.Context(), name, Claim{Account: "a", Key: "page", Bytes: small})
		}
		l.wait(t.Context(), "s5", Claim{Account: "a", Key: "export", Bytes: small}) // in the turns of its own key
		l.want("A", "B", "s1", "s2", "s3", "s4")
		l.release("s1")
		l.want("A", "B", "s1", "s2", "s3", "s4")
		l.release("A")
		if got := l.granted[6:]; !slices.Contains(got, "C") || slices.Contains(got, "D") {
			t.Errorf("then granted %v, want the large claim that came first", got)
		}
	})
}

// Small claims of another key leave their account a place for the large one, or those of other accounts would overtake it.
func TestSmallClaimsOfOtherKeysLeaveTheLastPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000, PerAccount: 2})
		l.wait(t.Context(), "A", Claim{Account: "a", Bytes: 2 * large})
		l.wait(t.Context(), "B", Claim{Account: "b", Key: "export", Bytes: 2 * large})
		l.wait(t.Context(), "C", Claim{Account: "c", Bytes: 2 * large})
		l.wait(t.Context(), "s1", Claim{Account: "b", Key: "page", Bytes: small})
		l.wait(t.Context(), "s2", Claim{Account: "b", Key: "page", Bytes: small})
		l.want("A", "s1")
		l.release("A")
		l.want("A", "s1", "B")
		l.release("s1")
		l.want("A", "s1", "B", "s2")
	})
}

func TestLargeClaimsDoNotOvertakeLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000})
		l.wait(t.Context(), "A", Claim{Account: "a", Bytes: 700})
		l.wait(t.Context(), "B", Claim{Account: "b", Bytes: 800})
		l.wait(t.Context(), "C", Claim{Account: "c", Bytes: 100})
		l.want("A")
		l.release("A")
		l.want("A", "B")
		l.release("B")
		l.want("A", "B", "C")
	})
}

func TestAShrunkGrantMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000})
		l.wait(t.Context(), "A", Claim{Account: "a", Bytes: 5000}) // counts as 875
		l.wait(t.Context(), "B", Claim{Account: "b", Bytes: large})
		l.want("A")
		l.grants["A"].Shrink(900)
		synctest.Wait()
		l.want("A")
		l.grants["A"].Shrink(500)
		synctest.Wait()
		l.want("A", "B")
		l.release("A")
		l.release("A") // does nothing
		l.grants["A"].Shrink(0)
		l.release("B")
		if used := l.budget.used; used != 0 {
			t.Errorf("%d bytes are in use", used)
		}
	})
}

func TestJobsYieldToRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000})
		job := Claim{Account: "job", Bytes: 400, Background: true}
		l.wait(t.Context(), "j1", job)
		l.wait(t.Context(), "j2", job) // more than half
		l.wait(t.Context(), "A", Claim{Account: "a", Bytes: 400})
		l.wait(t.Context(), "B", Claim{Account: "b", Bytes: 400})
		l.want("j1", "A")
		l.release("j1") // for the request that waits, though the job came before
		l.want("j1", "A", "B")
		l.release("A")
		l.want("j1", "A", "B", "j2")
	})
}

func TestAClaimWaitsNoLongerThanItsPatienceAndContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 400})
		began := time.Now()
		acquire(t, l.budget, Claim{Account: "a", Bytes: 350})
		refused := func(ctx context.Context, after time.Duration) {
			t.Helper()
			_, err := l.budget.Acquire(ctx, Claim{Account: "b", Bytes: 350})
			failure, ok := errors.AsType[*RefusedError](err)
			if !ok || failure.Reason != reasonPatience || failure.RetryAfter <= 0 {
				t.Errorf("got %v", err)
			}
			if waited := time.Since(began); waited != after {
				t.Errorf("it waited %v, not %v", waited, after)
			}
			began = time.Now()
		}
		refused(t.Context(), 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		refused(ctx, 3*time.Second)
		ctx, cancel = context.WithCancel(t.Context())
		l.wait(ctx, "left", Claim{Account: "b", Bytes: 350})
		cancel()
		synctest.Wait()
		if err := l.errs["left"]; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if l.budget.requests.waiting != 0 || len(l.budget.requests.accounts) != 0 {
			t.Errorf("the queue has %+v", l.budget.requests)
		}
	})
}

func TestAClaimThatLeavesMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 1000})
		l.wait(t.Context(), "A", Claim{Account: "a", Bytes: 500})
		ctx, cancel := context.WithCancel(t.Context())
		l.wait(ctx, "B", Claim{Account: "b", Bytes: 500})
		l.wait(t.Context(), "C", Claim{Account: "c", Bytes: 200})
		l.want("A")
		cancel()
		synctest.Wait()
		l.want("A", "C")
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Config{Bytes: 400, Waiting: 3, WaitingPerAccount: 2})
		for _, name := range []string{"a0", "a1", "a2", "a3", "b1", "c1"} {
			l.wait(t.Context(), name, Claim{Account: name[:1], Bytes: 350})
		}
		l.want("a0")
		for _, name := range []string{"a3", "c1"} {
			if failure, ok := errors.AsType[*RefusedError](l.errs[name]); !ok || failure.Reason != reasonQueue {
				t.Errorf("%s: %v", name, l.errs[name])
			}
		}
		if len(l.errs) != 2 {
			t.Errorf("refused: %v", l.errs)
		}
		l.release("a0")
		// A granted claim no longer waits, and jobs count like requests.
		for _, name := range []string{"a4", "a5", "j1"} {
			l.wait(t.Context(), name, Claim{Account: name[:1], Bytes: 350, Background: name[0] == 'j'})
		}
		if failure, ok := errors.AsType[*RefusedError](l.errs["j1"]); !ok || failure.Reason != reasonQueue || l.errs["a4"] != nil || len(l.errs) != 4 {
			t.Errorf("refused: %v", l.errs)
		}
		for _, name := range []string{"a1", "b1", "a2"} {
			l.release(name)
		}
		l.want("a0", "a1", "b1", "a2", "a4")
	})
}

func TestOnlySmallFillsStartAboveTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pressed := false
		l := newLine(t, Config{Bytes: 400, Pressed: func() bool { return pressed }})
		l.wait(t.Context(), "A", Claim{Account: "a", Bytes: 350})
		l.wait(t.Context(), "B", Claim{Account: "b", Bytes: 350})
		pressed = true
		l.wait(t.Context(), "C", Claim{Account: "c", Bytes: 100})
		if failure, ok := errors.AsType[*RefusedError](l.errs["C"]); !ok || failure.Reason != reasonMemory {
			t.Errorf("got %v", l.errs["C"])
		}
		l.wait(t.Context(), "small", Claim{Account: "c", Bytes: 1})
		l.release("A")
		l.want("A", "small")
		pressed = false
		l.release("small")
		l.want("A", "small", "B")
	})
}

func TestHeapWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, reads := uint64(850), 0
		pressed := HeapWatermark(1000, func() uint64 { reads++; return live })
		for range 10 {
			if pressed() {
				t.Error("85 of 100 are above the watermark")
			}
		}
		live = 860
		if pressed() || reads != 1 {
			t.Errorf("the heap was read %d times within 100 ms", reads)
		}
		time.Sleep(100 * time.Millisecond)
		if !pressed() || reads != 2 {
			t.Error("86 of 100 are below the watermark")
		}
		synctest.Wait() // for the garbage collection
	})
	if LiveHeap() == 0 {
		t.Error("the runtime does not report its live heap")
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		l := newLine(t, Config{Bytes: 400, WaitingPerAccount: 1, Registry: registry})
		for _, name := range []string{"A", "B", "C"} {
			l.wait(t.Context(), name, Claim{Account: "a", Bytes: 350})
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				name := family.GetName()
				for _, label := range m.GetLabel() {
					name += " " + label.GetValue()
				}
				got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		want := map[string]float64{"sara_fill_bytes_in_flight": 350, "sara_fills_waiting": 1,
			"sara_fills_refused_total queue": 1, "sara_fills_refused_total patience": 0, "sara_fills_refused_total memory": 0}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		l.release("A")
	})
}

// The last fill may end while the heap is above its watermark. After that, only garbage collection happens.
func TestClaimsAreGrantedOnceTheHeapIsBelowItsWatermarkAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pressed atomic.Bool
		l := newLine(t, Config{Bytes: 400, Pressed: pressed.Load})
		l.wait(t.Context(), "first", Claim{Account: "a", Bytes: 300})
		began := time.Now()
		l.wait(t.Context(), "second", Claim{Account: "b", Bytes: 300})
		pressed.Store(true)
		l.release("first")
		if len(l.granted) != 1 {
			t.Fatalf("granted above the watermark: %v", l.granted)
		}
		pressed.Store(false)
		<-time.After(pressedPause)
		synctest.Wait()
		if waited := time.Since(began); !slices.Equal(l.granted, []string{"first", "second"}) {
			t.Errorf("after %v, granted are %v; errors: %v", waited, l.granted, l.errs)
		}
	})
}
