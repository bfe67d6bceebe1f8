package policy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/policy/panics"
)

// guess tries unknown keys, each from an address of its own.
func (w *fixture) guess(t *testing.T, texts []string) {
	t.Helper()
	for _, text := range texts {
		wantCode(t, CodeInvalidKey, nil)(w.from(fmt.Sprint("address of ", text), text))
	}
}

// queries returns how often the directory was asked for keys, for all hashes, and for its edition.
func (d *fakeDirectory) queries() (lookups, listings, editions int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lookups, len(d.listings), d.editionReads
}

// newCountedFixture returns a fixture with a census in use, and unknown keys that were not tried.
func newCountedFixture(t *testing.T) (*fixture, []string) {
	w := newSynctestFixture(t)
	texts := keyTexts(1000)
	w.guess(t, texts[:minCensus+1])
	if _, listings, _ := w.directory.queries(); listings != 1 {
		t.Fatalf("after %d unknown keys, the directory has listed its keys %d times", minCensus+1, listings)
	}
	return w, texts[minCensus+1:]
}

// Many unknown keys from as many networks cost the database nothing but looks at its edition, as long as known keys need no look-up.
func TestCensusAnswersUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, unknown := newCountedFixture(t)
		lookups, _, editions := w.directory.queries()
		for i := range 5 { // each time when the next check is due
			w.guess(t, unknown[i*100:][:100])
			synctest.Wait()
			time.Sleep(censusAhead + 1)
		}
		after, listings, editionsAfter := w.directory.queries()
		if after != lookups || listings != 1 || editionsAfter != editions+4 {
			t.Errorf("500 unknown keys made %d look-ups, %d listings and %d looks at the edition", after-lookups, listings-1, editionsAfter-editions)
		}
		wantCode(t, "", nil)(w.from("a", validKeyText))
		wantCalls(t, w.directory, lookups+1)

		time.Sleep(answerTTL) // synctest
		w.guess(t, unknown[500:510])
		wantCalls(t, w.directory, lookups+11)
	})
}

// Known keys that are looked up in a flood do not make unknown ones take a look-up.
func TestCensusAnswersBesideLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, unknown := newCountedFixture(t)
		time.Sleep(NewKeyDelay + 1) // synctest
		before := w.directory.asked
		var all sync.WaitGroup
		for i, text := range append(unknown[:20:20], validKeyText) {
			all.Go(func() { wantCode(t, map[bool]string{true: CodeInvalidKey}[i < 20], nil)(w.from(fmt.Sprint(i), text)) })
		}
		all.Wait()
		if asked := w.directory.asked - before; asked != 1 {
			t.Errorf("%d keys were looked up, want the known one", asked)
		}
	})
}

// A census reads no more keys than the look-ups before it justify.
func TestCensusIsWorthItsPrice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		texts := keyTexts(2000)
		known := minCensus*censusRows + 10
		w.addKeys(texts[:known])
		w.guess(t, texts[known:][:3*minCensus])
		if got, want := fmt.Sprint(w.directory.listings), fmt.Sprint([]int{minCensus*censusRows + 1, 2*minCensus*censusRows + 1}); got != want {
			t.Errorf("%d keys were listed with the limits %s, want %s", known+1, got, want)
		}
		for _, text := range texts[:known] {
			wantCode(t, "", nil)(w.from("a", text))
		}
		w.keys.plan.unknown = maxCensus
		time.Sleep(answerTTL + 1) // synctest
		w.guess(t, texts[known+3*minCensus:][:1])
		if got := w.directory.listings[2]; got != maxCensus+1 {
			t.Errorf("the keys were listed with the limit %d, want %d", got, maxCensus+1)
		}
	})
}

// A key works as soon as it is shown, whatever the census says: at once if this process has made it, else after NewKeyDelay.
func TestKeyThatIsMadeAfterACensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, unknown := newCountedFixture(t)
		w.guess(t, unknown[:10])
		add := func(text string) func() { return func() { w.directory.keys[hashKey(text)] = validKey() } }
		w.directory.changeHere(add(unknown[10]))
		wantCode(t, "", nil)(w.from("a", unknown[10]))

		w, unknown = newCountedFixture(t)
		w.guess(t, unknown[:10])
		w.directory.changeElsewhere(add(unknown[10]))
		time.Sleep(NewKeyDelay) // synctest
		wantCode(t, "", nil)(w.from("a", unknown[10]))

		w, unknown = newCountedFixture(t)
		w.guess(t, unknown[:10])
		w.directory.set(add(unknown[10])) // by hand
		wantCode(t, CodeInvalidKey, nil)(w.from("a", unknown[10]))
		time.Sleep(answerTTL + 1) // synctest
		wantCode(t, "", nil)(w.from("a", unknown[10]))
	})
}

// A network that guesses is not answered faster because of others.
func TestGuessingNetworkWaitsDespiteACensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, unknown := newCountedFixture(t)
		_ = w.codesOf(t, "a", unknown[:maxUnknownKeys])
		begun := time.Now()
		for _, text := range unknown[maxUnknownKeys:][:10] {
			wantCode(t, CodeRateLimited, nil)(w.from("a", text))
		}
		if took := time.Since(begun); took < 9*guessInterval {
			t.Errorf("10 guesses took %v", took)
		}
	})
}

// What is refused at once is what Admit would refuse, and it counts as much. All else is left to Admit.
func TestRefuseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		atOnce := func(w *fixture, address, text string) string {
			authorization := "Bearer " + text
			for _, hash := range []Hash{{}, HashKey(authorization)} {
				if denial := w.RefuseAtOnce(time.Now(), Request{Authorization: authorization, KeyHash: hash, Address: address}); denial != nil {
					return denial.Code
				}
			}
			return ""
		}
		want := func(got, code string) {
			t.Helper()
			if got != code {
				t.Errorf("refused with %q, want %q", got, code)
			}
		}
		w, texts := newSynctestFixture(t), keyTexts(1)
		want(atOnce(w, "a", texts[0]), "") // without a census
		want(atOnce(w, "a", texts[0]+"X"), CodeInvalidKey)

		w, unknown := newCountedFixture(t)
		w.guess(t, unknown[:1]) // the census is checked
		lookups, _, _ := w.directory.queries()
		want(atOnce(w, "a", validKeyText), "")
		for _, text := range unknown[1:][:maxUnknownKeys] {
			want(atOnce(w, "a", text), CodeInvalidKey)
		}
		wantCalls(t, w.directory, lookups)
		want(atOnce(w, "a", unknown[50]), "")
		wantCode(t, CodeRateLimited, nil)(w.from("a", unknown[50]))
		want(atOnce(w, "b", unknown[50]), CodeInvalidKey)
		time.Sleep(NewKeyDelay) // synctest
		want(atOnce(w, "b", unknown[51]), "")
		w.guess(t, unknown[60:61])
		want(atOnce(w, "b", unknown[51]), CodeInvalidKey)
		w.directory.changeHere(func() {})
		want(atOnce(w, "b", unknown[52]), "")
	})
}

// A directory that cannot list its keys answers look-ups as before, and is seldom asked again.
func TestLookupsWorkWithoutACensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		w.directory.set(func() { w.directory.listing = errDirectoryDown })
		texts := keyTexts(2000)
		w.guess(t, texts[:20*minCensus])
		if lookups, listings, _ := w.directory.queries(); lookups != 20*minCensus || listings != 5 {
			t.Errorf("%d look-ups and %d listings", lookups, listings)
		}
		w.directory.set(func() { w.directory.listing = context.DeadlineExceeded })
		w.keys.plan.due = 0
		begun := time.Now()
		wantCode(t, "", nil)(w.from("a", validKeyText))
		if took, limit := time.Since(begun), censusTimeout; took != limit {
			t.Errorf("a known key took %v, want %v", took, limit)
		}
	})
}

// A bug in the listing fails the requests of one query.
func TestPanicOfTheListingFailsOneQuery(t *testing.T) {
	w := newFixture(t)
	texts := keyTexts(100)
	w.guess(t, texts[:minCensus])
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
	if _, listings, _ := w.directory.queries(); listings != 1 {
		t.Errorf("the keys were listed %d times", listings)
	}
}

// A census speaks only of its version, and of no key that begins like one that exists.
func TestCensusLacks(t *testing.T) {
	now, of := time.Now(), version{1, 2}
	known := Hash{1, 2, 3, 4, 5, 6, 7, 8, 9}
	c := newCensus(of, now, []Hash{known})
	twin, other := known, known
	twin[8]++
	other[7]++
	for name, test := range map[string]struct {
		census *census
		at     time.Time
		hash   Hash
		v      version
		lacks  bool
	}{
		"another key":           {c, now, other, of, true},
		"its last moment":       {c, now.Add(answerTTL), other, of, true},
		"too old":               {c, now.Add(answerTTL + 1), other, of, false},
		"from the future":       {c, now.Add(-1), other, of, false},
		"the key":               {c, now, known, of, false},
		"a key that begins so":  {c, now, twin, of, false},
		"another edition":       {c, now, other, version{1, 3}, false},
		"another known change":  {c, now, other, version{2, 2}, false},
		"no census":             {nil, now, other, of, false},
		"a census without keys": {newCensus(of, now, nil), now, known, of, true},
	} {
		if got := test.census.lacks(test.at, &test.hash, test.v); got != test.lacks {
			t.Errorf("%s: %v", name, got)
		}
		if test.census.answers(test.at, &keyQuestion{test.hash, test.v}) {
			t.Errorf("%s: a census answers before it was checked", name)
		}
	}
}
