package main

import (
	"errors"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/bench/internal/testbed"
	"sara/cmd/sara/saratest"
)

// The bounds are those that deploy/README.md states, for requests to the replicas a, b and c, one every 100 ms.
func TestBounds(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var answers []countedAnswer
	for i, replica := range strings.Split("abcabcaabbabcabc", "") { // b and a admit 5 requests between the second and the third of c
		answers = append(answers, countedAnswer{begun.Add(time.Duration(i-6) * 100 * time.Millisecond), replica, http.StatusOK})
	}
	ended := begun.Add(300 * time.Millisecond)
	const unseen, share = 6, 48 // of the 144 that are left at the beginning
	for l, want := range map[loss]int{keepsCounts: 0, allNotice: unseen, someNotice: unseen + 2*share, replicasStart: unseen + 3*share,
		replicaCrashes: unseen + 5} {
		if got := l.bound(answers, begun, ended); got != want {
			t.Errorf("loss %d: at most %d, want %d", l, got, want)
		}
	}
	answers[8].status = http.StatusTooManyRequests
	if got := mostUnseen(answers, begun, ended); got != unseen-1 {
		t.Errorf("a refusal counts: %d, want %d", got, unseen-1)
	}
	if got := mostUnseen(answers, begun.Add(time.Hour), ended.Add(time.Hour)); got != 0 {
		t.Errorf("after all answers: %d", got)
	}
}

// The faults that need no long wait, in a short form. It shows nothing about time.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs three replicas of sara")
	}
	if _, err := exec.LookPath("redis-server"); err != nil || !testbed.HasPostgres() || !testbed.HasS3() {
		t.Skip("redis-server, PostgreSQL and versitygw must be installed")
	}
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.faults = slices.DeleteFunc(o.faults, func(f fault) bool { return !f.short })
	const target = 99 // of a few hundred questions, on a busy machine
	o.binary, o.timed, o.target, o.hold, o.before, o.quiet = saratest.Binary(t), false, target, 200*time.Millisecond,
		100*time.Millisecond, 100*time.Millisecond
	w, err := newWorld(t.Context(), o, setup{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	admitted, most := 0, countedADay
	for _, f := range o.faults {
		r := w.try(t.Context(), f, 1)
		t.Log(r.row())
		admitted += r.admitted
		most += r.bound
		if r.asked == 0 {
			t.Errorf("%s: nothing was asked", f.name)
		}
		for _, problem := range r.problems(o) {
			t.Errorf("%s: %s", f.name, problem)
		}
	}
	if admitted > most {
		t.Errorf("%d admitted, at most %d may be", admitted, most)
	}
}

func TestFaultsHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults() {
		if seen[f.name] {
			t.Errorf("two faults are named %q", f.name)
		}
		seen[f.name] = true
	}
	if all := choose([]string{""}); len(all) != len(faults()) {
		t.Errorf("%d of %d faults are chosen", len(all), len(faults()))
	}
}

func TestProblems(t *testing.T) {
	o := options{target: 99.99, timed: true}
	f := func(want string, r result) {
		t.Helper()
		got := strings.Join(r.problems(o), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
	f("", result{asked: 100, admitted: 150})
	f("99.000 %", result{asked: 100, failed: map[string]int{"502": 1}})
	f("it took 2s", result{asked: 100, back: 2 * time.Second})
	f("151 admitted, at most 150", result{asked: 100, admitted: 151})
	f("", result{asked: 100, admitted: 151, bound: 1})
	f("170 admitted, at most 165", result{asked: 100, admitted: 170, bound: 15})
	f("begin: no", result{asked: 100, err: errors.New("begin: no")})
	f("not answered: 2 × 503 SERVICE_UNAVAILABLE", result{asked: 100, coldAsked: 9, coldFailed: map[string]int{"503 SERVICE_UNAVAILABLE": 2}})
	f("none of 9 answers to new questions has the note \"damaged\"", result{asked: 100, coldAsked: 9, fault: fault{note: "damaged"}})
	f("", result{asked: 100, coldAsked: 9, noted: 1, fault: fault{note: "damaged"}})
	f("after 5s", result{asked: 100, slowest: 5 * time.Second})
	f("after 5s", result{asked: 100, coldAsked: 1, coldSlowest: 5 * time.Second})
}
