package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sara/policy/panics"
)

// keyTexts returns n different texts with the form of keys.
func keyTexts(n int) []string {
	texts := make([]string, n)
	digits := strings.NewReplacer("0", "A", "1", "B", "8", "I", "9", "J")
	for i := range texts {
		texts[i] = "sara_live_" + digits.Replace(fmt.Sprintf("%052d", i))
	}
	return texts
}

// addKeys makes valid keys of texts.
func (w *fixture) addKeys(texts []string) {
	w.directory.set(func() {
		for i, text := range texts {
			key := validKey()
			key.ID = fmt.Sprint("key", i)
			w.directory.keys[hashKey(text)] = key
		}
	})
}

// from requests no scope with a key, from an address.
func (w *fixture) from(address, text string) (code string, err error) {
	_, err = w.Admit(context.Background(), Request{Authorization: "Bearer " + text, Address: address})
	return codeOf(err)
}

// codesOf counts the codes of the answers to many concurrent requests from one address.
func (w *fixture) codesOf(t *testing.T, address string, texts []string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	codes := map[string]int{}
	var all sync.WaitGroup
	for _, text := range texts {
		all.Go(func() {
			code, err := w.from(address, text)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			codes[code]++
			mu.Unlock()
		})
	}
	all.Wait()
	return codes
}

// Of any number of concurrent guesses from a network exactly the limit is answered 401. Each network has its own limit.
func TestUnknownKeysAreLimitedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		texts := keyTexts(300)
		codes := w.codesOf(t, "2001:db8::1", texts[:200])
		if codes[CodeInvalidKey] != maxUnknownKeys || codes[CodeRateLimited] != 200-maxUnknownKeys {
			t.Errorf("answers %v", codes)
		}
		_, err := w.Admit(t.Context(), Request{Authorization: "Bearer " + texts[0], Address: "2001:db8::2"})
		wantDenial(t, err, CodeRateLimited, "30 keys that are unknown, or not for this address, were tried from it within a minute; try again in 2 seconds")
		if denial, _ := errors.AsType[*Denial](err); denial.Limit != maxUnknownKeys || denial.RetryAfter <= time.Second {
			t.Errorf("%+v", denial)
		}
		wantCode(t, CodeInvalidKey, nil)(w.from("2001:db8:0:1::1", texts[201]))
		time.Sleep(2 * time.Second) // synctest
		wantCode(t, CodeInvalidKey, nil)(w.from("2001:db8::3", texts[202]))
		wantCode(t, CodeRateLimited, nil)(w.from("2001:db8::3", texts[203]))
	})
}

// A valid key passes whatever its neighbours try, also one that was never seen before.
func TestValidKeysPassBehindAGuessingAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		texts := keyTexts(1000)
		w.addKeys(texts[500:])
		_ = w.codesOf(t, "198.51.100.7", texts[:500])
		if codes := w.codesOf(t, "198.51.100.7", texts[500:]); codes[""] != 500 {
			t.Errorf("answers to 500 valid keys: %v", codes)
		}
		calls := w.directory.calls()
		if calls > 20 {
			t.Errorf("1000 keys made %d queries", calls)
		}
		if codes := w.codesOf(t, "198.51.100.7", texts[500:]); codes[""] != 500 {
			t.Errorf("answers to 500 valid keys that are cached: %v", codes)
		}
		wantCalls(t, w.directory, calls)
	})
}

// However a network guesses, its queries are few, and no valid key is evicted.
func TestManyGuessesMakeFewQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		wantCode(t, "", nil)(w.from("203.0.113.1", validKeyText))
		const guesses, guessers = 8000, 50
		var next, codes atomic.Int64
		texts := keyTexts(guesses)
		var all sync.WaitGroup
		begun := time.Now()
		for range guessers {
			all.Go(func() {
				for i := next.Add(1) - 1; i < guesses; i = next.Add(1) - 1 {
					if code, err := w.from(fmt.Sprintf("2001:db8::%x", i), texts[i]); err == nil && code != "" {
						codes.Add(1)
					}
				}
			})
		}
		all.Wait()
		if codes.Load() != guesses {
			t.Errorf("%d of %d guesses were refused", codes.Load(), guesses)
		}
		if calls := w.directory.calls(); calls > guesses/10 {
			t.Errorf("%d guesses by %d at once made %d queries", guesses, guessers, calls)
		}
		if took, calls := time.Since(begun), w.directory.calls(); time.Duration(calls-2*maxUnknownKeys)*guessInterval > took {
			t.Errorf("%d queries in %v", calls, took)
		}
		if !w.keys.knows(hashKey(validKeyText)) {
			t.Error("the guesses evicted a valid key")
		}
	})
}

// While networks that guess have to wait for their query, others do not, and take them along.
func TestUrgentLookupsDoNotWaitForGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		texts := keyTexts(100)
		w.addKeys(texts[90:])
		_ = w.codesOf(t, "a", texts[:50])
		begun := time.Now()
		var guess sync.WaitGroup
		guess.Go(func() {
			wantCode(t, CodeRateLimited, nil)(w.from("a", texts[60]))
			if took := time.Since(begun); took >= guessInterval/2 {
				t.Errorf("a guess was not taken along: it took %v", took)
			}
		})
		synctest.Wait()
		calls := w.directory.calls()
		time.Sleep(time.Millisecond) // synctest
		wantCode(t, "", nil)(w.from("b", texts[95]))
		if took := time.Since(begun); took != time.Millisecond {
			t.Errorf("a key from another network took %v", took)
		}
		guess.Wait()
		wantCalls(t, w.directory, calls+1)
	})
}

// Look-ups that wait for a directory that hangs fail when it does, and known keys work on.
func TestHungDirectoryFailsWaitingLookupsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		wantCode(t, "", nil)(w.from("a", validKeyText))
		time.Sleep(answerTTL + 1) // synctest
		_, _ = w.version(t.Context())
		release := w.directory.block()
		defer release()
		begun := time.Now()
		var all sync.WaitGroup
		for _, text := range keyTexts(1000) {
			all.Go(func() { wantCode(t, "", context.DeadlineExceeded)(w.from("a", text)) })
		}
		all.Go(func() { wantCode(t, "", nil)(w.from("a", validKeyText)) })
		all.Wait()
		if took := time.Since(begun); took > 2*defaultLookupTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// When too many look-ups wait, networks that guess are refused first, with an error and never with a denial.
func TestFullQueueRefusesNetworksThatGuessFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		_, _ = w.version(t.Context())
		release := w.directory.block()
		texts := keyTexts(maxWaitingLookups + 10)
		w.addKeys(texts)
		var busy, passed atomic.Int64
		var all sync.WaitGroup
		ask := func(address, text string) {
			all.Go(func() {
				switch code, err := w.from(address, text); {
				case errors.Is(err, errBusy):
					busy.Add(1)
				case code == "" && err == nil:
					passed.Add(1)
				default:
					t.Errorf("%s: %q, %v", address, code, err)
				}
			})
		}
		for _, text := range texts[:maxWaitingLookups/2+5] {
			ask("guesser", text)
			synctest.Wait()
		}
		if busy.Load() != 5 {
			t.Errorf("%d of the guesser's look-ups found no room, want 5", busy.Load())
		}
		for i, text := range texts[maxWaitingLookups/2+5:] {
			ask(fmt.Sprint("other", i), text)
		}
		synctest.Wait()
		if busy.Load() != 10 {
			t.Errorf("%d look-ups found no room, want 10", busy.Load())
		}
		release()
		all.Wait()
		if passed.Load() != maxWaitingLookups {
			t.Errorf("%d look-ups passed, want %d", passed.Load(), maxWaitingLookups)
		}
	})
}

// A bug in the directory fails the requests of its query, not the process, and not the next query.
func TestPanicOfTheDirectoryFailsItsQueryOnly(t *testing.T) {
	w := newFixture(t)
	w.directory.set(func() { w.directory.bug = "a bug" })
	func() {
		defer func() {
			if bug, ok := recover().(*panics.Error); !ok || bug.Value != "a bug" {
				t.Errorf("recovered %v", bug)
			}
		}()
		_, _ = w.admit(t.Context())
	}()
	w.directory.set(func() { w.directory.bug = nil })
	wantCode(t, "", nil)(w.admit(t.Context()))
}

// Guesses cost neither a valid key its place in the cache, nor those that are valid anything.
func TestNegativeAnswersEvictNoPositiveOne(t *testing.T) {
	const size = 100
	answers := newAnswers[int, int](time.Now, answerTTL, size)
	now := time.Now()
	for n := range size {
		_, _ = answers.finish(now, n, version{}, n, nil)
	}
	for n := range 100 * size {
		_, _ = answers.finish(now, 1000+n, version{}, 0, ErrUnknown)
	}
	for n := range size {
		if a, ok := answers.cached(now, n, version{}); !ok || a.value != n {
			t.Errorf("%d is not cached", n)
		}
	}
	if _, _ = answers.finish(now, 1, version{}, 0, ErrUnknown); answers.knows(1) {
		t.Error("what does not exist any more is known")
	}
	if a, ok := answers.cached(now, 1, version{}); !ok || !errors.Is(a.err, ErrUnknown) {
		t.Errorf("what does not exist any more: %+v, %t", a, ok)
	}
}

func TestFairQueueTakesTurns(t *testing.T) {
	var q fairQueue
	for _, text := range []string{"a1", "a2", "a3", "b1", "a4", "c1", "c2"} {
		q.push(&keyLookup{network: text[:1], answer: answer[*Key]{value: &Key{ID: text}}})
	}
	if q.waiting("a") != 4 || q.waiting("c") != 2 || q.waiting("d") != 0 {
		t.Errorf("%d of a and %d of c wait", q.waiting("a"), q.waiting("c"))
	}
	var order []string
	for _, n := range []int{2, 0, 3, 10} {
		for _, l := range q.pop(nil, n) {
			order = append(order, l.answer.value.ID)
		}
	}
	if got := strings.Join(order, " "); got != "a1 b1 c1 a2 c2 a3 a4" || q.size != 0 || len(q.lanes)+len(q.turns) != 0 {
		t.Errorf("the order is %s, and %d are left", got, q.size)
	}
}

func TestNetworkOfAnAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":             "192.0.2.7",
		"::ffff:192.0.2.7":      "192.0.2.7",
		"192.0.2.7:1234":        "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2::",
		"2001:DB8:1:2::":        "2001:db8:1:2::",
		"fe80::1%eth0":          "fe80::",
		"[2001:db8:1:2::9]:443": "2001:db8:1:2::",
		"unknown":               "unknown",
		"":                      "",
	} {
		if got := Network(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// A query that runs while keys come and go gives each request an answer, on any interleaving.
func TestConcurrentLookupsAreAllAnswered(t *testing.T) {
	w := newFixtureAt(t, nil, time.Now)
	texts := keyTexts(400)
	w.addKeys(texts[:200])
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range texts {
				text := texts[(i*7+g*31)%len(texts)]
				code, err := w.from(fmt.Sprint("10.0.", g, ".", i), text)
				if want := map[bool]string{true: "", false: CodeInvalidKey}[w.directory.has(text)]; code != want || err != nil {
					t.Errorf("%s: %q, %v, want %q", text, code, err, want)
				}
				if i%50 == 0 {
					w.Invalidate()
				}
			}
		})
	}
	all.Wait()
}

func (d *fakeDirectory) has(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.keys[hashKey(text)]
	return ok
}
