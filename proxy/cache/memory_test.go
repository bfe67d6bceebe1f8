package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestMemoryStaysWithinItsBound(t *testing.T) {
	const bytes = 400_000
	for _, accounts := range []int{1, 3, 100} {
		m := newMemory(bytes)
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
					if size := m.values.Weight(); size > bytes {
						t.Errorf("the memory holds %d bytes", size)
					}
				}
			})
		}
		writers.Wait()
		switch size := m.values.Weight(); {
		case size == 0:
			t.Errorf("the memory of %d accounts is empty", accounts)
		case accounts == 1 && size > bytes/accountShare:
			t.Errorf("one account holds %d bytes", size)
		}
	}
}

func TestAccountLosesItsOwnOldestAnswersFirst(t *testing.T) {
	m := newMemory(400_000)
	m.putAnswer("neighbour", NewAnswer(nil, time.Time{}), "quiet")
	for n := range 10 {
		m.putAnswer(fmt.Sprint(n), NewAnswer(make([]byte, 20_000), time.Time{}), "loud") // 30,000 with the compressed form
	}
	for n := range 10 {
		if kept := m.answer(fmt.Append(nil, n)) != nil; kept != (n >= 7) {
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
}

// A long head keeps the capacity with which it was written.
func TestUnusedCapacityOfAnAnswerCounts(t *testing.T) {
	m := newMemory(400_000)
	a := NewAnswer(make([]byte, 20_000, 40_000), time.Time{})
	m.putAnswer("key", a, "account")
	if size := m.values.Weight(); size < 40_000+20_000/2 {
		t.Errorf("%d bytes are counted", size)
	}
	if r := a.NewRendition(make([]byte, 20_000, 40_000), "-csv", nil); r.size() < 40_000+20_000/2 || r.size() > 60_000 {
		t.Errorf("a rendition counts %d bytes", r.size())
	}
}

func TestTooLargeAnswerReplacesTheOldAndIsNotKept(t *testing.T) {
	m := newMemory(400_000)
	m.putAnswer("key", NewAnswer(nil, time.Time{}), "account")
	m.putAnswer("key", NewAnswer(make([]byte, 70_000), time.Time{}), "account")
	if m.answer([]byte("key")) != nil {
		t.Error("kept an answer of more than a quarter, or the one it replaced")
	}
	if size := m.values.Weight(); size != 0 {
		t.Errorf("%d bytes are counted", size)
	}
}

func TestOlderFillDoesNotReplaceNewer(t *testing.T) {
	m := newMemory(400_000)
	newer := &Entry{key: "key", rows: rowsOf(t, 1), filled: time.Unix(2, 0)}
	m.putEntry(newer, "account")
	m.putEntry(&Entry{key: "key", rows: rowsOf(t, 1), filled: time.Unix(1, 0)}, "account")
	if m.entry([]byte("key")) != newer {
		t.Error("an older fill replaced a newer one")
	}
}

// evict removes a value, as a newer one that is too heavy to keep does.
func (m *memory) evict(key memoryKey) {
	tooHeavy := value{entry: &Entry{filled: time.Now().AddDate(1, 0, 0)}}
	m.values.PutWeighted(key, tooHeavy, math.MaxInt64, "account")
}
