package cache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
)

// wantExact checks that what is counted of each account is what it has.
func wantExact(t *testing.T, m *memory) {
	t.Helper()
	have := map[string]int64{}
	all := int64(0)
	for _, v := range m.items.(*otter.Cache[memoryKey, *item]).All() {
		have[v.account] += int64(v.weight)
		all += int64(v.weight)
	}
	for account, share := range m.shares.accounts {
		if share.bytes != have[account] {
			t.Errorf("counted %d bytes of %s, which has %d", share.bytes, account, have[account])
		}
	}
	if len(m.shares.accounts) != len(have) || uint64(all) != m.items.WeightedSize() {
		t.Errorf("counted %d accounts of %d, %d bytes of %d", len(m.shares.accounts), len(have), m.items.WeightedSize(), all)
	}
}

func (m *memory) held(account string) int64 {
	m.shares.mu.Lock()
	defer m.shares.mu.Unlock()
	if s := m.shares.accounts[account]; s != nil {
		return s.bytes
	}
	return 0
}

func TestTheMemoryIsBoundedAndSoIsEachAccount(t *testing.T) {
	const bytes = 400_000
	for _, accounts := range []int{1, 3, 100} {
		m, err := newMemory(bytes)
		if err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for seed := range uint64(4) {
			writers.Go(func() {
				random := rand.New(rand.NewPCG(seed, 0))
				for range 1000 {
					account := fmt.Sprint("account ", random.IntN(accounts))
					key := fmt.Sprint("key ", random.IntN(500))
					if random.IntN(2) == 0 {
						m.putAnswer(key, NewAnswer(make([]byte, random.IntN(80_000)), time.Time{}), account)
					} else {
						m.putEntry(&Entry{key: key, rows: rowsOf(t, 0), filled: time.Unix(random.Int64N(100), 0)}, account)
					}
					m.answer([]byte(key))
					m.entry([]byte(key))
					if held := m.held(account); held > m.limit*2 { // another may be put at this moment
						t.Errorf("%s holds %d bytes", account, held)
					}
					if size := m.items.WeightedSize(); size > bytes+uint64(m.limit) {
						t.Errorf("the memory holds %d bytes", size)
					}
				}
			})
		}
		writers.Wait()
		wantExact(t, m)
		if size := m.items.WeightedSize(); size > bytes || size == 0 {
			t.Errorf("%d accounts left %d bytes in memory", accounts, size)
		}
		for account := range m.shares.accounts {
			if held := m.held(account); held > m.limit {
				t.Errorf("%s holds %d bytes", account, held)
			}
		}
	}
}

func TestAnAccountLosesItsOwnOldestFirst(t *testing.T) {
	const bytes = 400_000
	m, err := newMemory(bytes)
	if err != nil {
		t.Fatal(err)
	}
	m.putAnswer("neighbour", NewAnswer(nil, time.Time{}), "quiet")
	for n := range 10 {
		m.putAnswer(fmt.Sprint(n), NewAnswer(make([]byte, 20_000), time.Time{}), "loud") // of 30,000 with its compressed form
	}
	for n := range 10 {
		if kept := m.answer([]byte(fmt.Sprint(n))) != nil; kept != (n >= 7) {
			t.Errorf("answer %d kept: %v", n, kept)
		}
	}
	if m.answer([]byte("neighbour")) == nil {
		t.Error("one account took the memory of another")
	}
	m.putAnswer("8", NewAnswer(make([]byte, 20_000), time.Time{}), "loud")
	if m.answer([]byte("7")) == nil {
		t.Error("an answer that was replaced was counted twice")
	}
	wantExact(t, m)
}

func TestWhatIsTooBigReplacesTheOlderAndIsNotKept(t *testing.T) {
	m, err := newMemory(400_000)
	if err != nil {
		t.Fatal(err)
	}
	m.putAnswer("key", NewAnswer(nil, time.Time{}), "account")
	m.putAnswer("key", NewAnswer(make([]byte, 70_000), time.Time{}), "account")
	if m.answer([]byte("key")) != nil {
		t.Error("it kept an answer of more than a quarter, or the one before it")
	}
	wantExact(t, m)
}

func TestANewerEntryStays(t *testing.T) {
	m, err := newMemory(400_000)
	if err != nil {
		t.Fatal(err)
	}
	newer := &Entry{key: "key", rows: rowsOf(t, 1), filled: time.Unix(2, 0)}
	m.putEntry(newer, "account")
	m.putEntry(&Entry{key: "key", rows: rowsOf(t, 1), filled: time.Unix(1, 0)}, "account")
	if m.entryOf("key") != newer {
		t.Error("an older fill replaced a newer one")
	}
}
