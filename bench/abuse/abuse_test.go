package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sara/bench/internal/testbed"
	"sara/cmd/sara/saratest"
)

// The test binary is also the quiet tenants' client, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == askerCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

// Every trial in a short form, and then the mix. It shows nothing about time.
func TestAbuse(t *testing.T) {
	w := shortWorld(t)
	for _, trial := range w.trials {
		t.Run(trial.name, func(t *testing.T) {
			r, err := w.repeat(t.Context(), trial)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r.row())
			if r.during.requests == 0 {
				t.Error("the quiet tenants asked nothing")
			}
			for _, problem := range r.problems {
				t.Error(problem)
			}
		})
	}
	t.Run("mix", func(t *testing.T) {
		w.turn = 500 * time.Millisecond
		w.duration = w.turn * time.Duration(len(w.faults()))
		var printed strings.Builder
		err := w.mix(t.Context(), &printed)
		t.Log("\n" + printed.String())
		if err != nil {
			t.Error(err)
		}
	})
}

func shortWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.binary, o.size = saratest.Binary(t), shortSize()
	w, err := newWorld(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	var printed strings.Builder
	w.say(&printed)
	t.Log(printed.String())
	return w
}

func TestOptions(t *testing.T) {
	o, err := parse(nil)
	if err != nil || len(o.trials) != len(trials()) || o.memory != 768<<20 || o.duration != 0 || o.postgres != testbed.HasPostgres() {
		t.Errorf("the default is %+v (%v)", o, err)
	}
	o, err = parse([]string{"-trials", "idle,movers", "-for", "30m", "-database", "sqlite", "-memory", "1GiB"})
	if err != nil || len(o.trials) != 2 || o.trials[0].name != "idle" || o.duration != 30*time.Minute || o.postgres || o.memory != 1<<30 {
		t.Errorf("%+v (%v)", o, err)
	}
	for _, wrong := range []string{"-trials=nothing", "-database=oracle", "-memory=much", "-turn=-1s", "-rounds=0"} {
		if _, err := parse([]string{wrong, "-for=3m"}); err == nil {
			t.Errorf("no error for %s", wrong)
		}
	}
	if _, err := parse([]string{"-for=1m"}); err == nil {
		t.Error("no error for a mix that is shorter than a turn")
	}
}

// A process that has ended is not signalled when the run ends: the kernel may have given its PID to another process.
func TestEndedAskerIsSpared(t *testing.T) {
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{asker: itself}
	w.hitRate, w.coldRate = .001, .001 // it asks nothing while the test runs
	q, err := w.startQuiet(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := q.end(); err != nil || last.requests != 0 {
		t.Fatalf("%+v (%v)", last, err)
	}
	if q.spare() {
		t.Error("the process would still be signalled")
	}
}

// A process that is held up skips no question: the latencies of all of them count from when they were due.
func TestNoQuestionIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1005*time.Millisecond)
		defer cancel()
		began, asked := time.Now(), 0
		(&questions{HitRate: 100}).schedule(ctx, func(n int, due time.Time) {
			if want := began.Add(time.Duration(asked+1) * 10 * time.Millisecond); n != asked || !due.Equal(want) {
				t.Errorf("question %d is due after %v, want %d after %v", n, due.Sub(began), asked, want.Sub(began))
			}
			if asked++; asked == 20 {
				time.Sleep(500 * time.Millisecond)
			}
		})
		if asked != 100 {
			t.Errorf("%d questions in a second, want 100", asked)
		}
	})
}

func TestRoundsAddUp(t *testing.T) {
	round := func(took time.Duration, failure string, peak int64, notes ...string) *result {
		before, during := newReport(), newReport()
		before.record(hitKept, "", time.Time{}, took)
		during.record(hitKept, failure, time.Time{}, 2*took)
		r := &result{before: new(quiet).span(before), during: new(quiet).span(during), peak: peak, tally: newTally(), notes: notes}
		r.tally.add("200", 2)
		return r
	}
	all := round(time.Millisecond, "", 7, "calm")
	if err := all.merge(round(time.Second, "timeout", 5, "calm", "late")); err != nil {
		t.Fatal(err)
	}
	if all.before.requests != 2 || all.during.requests != 2 || all.during.errors != 1 || all.during.byKind["hit: timeout"] != 1 {
		t.Errorf("before %+v, during %+v", all.before, all.during)
	}
	if all.during.p99() < time.Second || all.peak != 7 || all.tally.String() != "200 × 4" || !slices.Equal(all.notes, []string{"calm", "late"}) {
		t.Errorf("p99 %v, peak %d, %s, notes %q", all.during.p99(), all.peak, all.tally, all.notes)
	}
}

func TestClassify(t *testing.T) {
	const envelope = `{"success":false,"error":{"code":"RATE_LIMITED","message":"too many","request_id":"1","docs_url":""}}`
	for _, c := range []struct {
		status                          int
		retryAfter, body, name, problem string
	}{
		{200, "", `{"success":true}`, "200", ""},
		{429, "3", envelope, "429 RATE_LIMITED", ""},
		{429, "", envelope, "429 RATE_LIMITED", "Retry-After"},
		{503, "soon", envelope, "503 RATE_LIMITED", "Retry-After"},
		{503, "1", "The connection cannot be served", "503", "not in the envelope"},
		{503, "1", `{"success":true,"error":{"code":"A","message":"b"}}`, "503", "not in the envelope"},
		{404, "", envelope, "404 RATE_LIMITED", ""},
		{401, "", "{}", "401", "not in the envelope"},
	} {
		name, problem := classify(c.status, c.retryAfter, []byte(c.body))
		if name != c.name || (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) {
			t.Errorf("%d, %q, %s: %q %q, want %q %q", c.status, c.retryAfter, c.body, name, problem, c.name, c.problem)
		}
	}
}

// What a connection has received is counted, whatever became of the connection.
func TestSettled(t *testing.T) {
	const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 62\r\nRetry-After: 5\r\nConnection: close\r\n\r\n" +
		`{"success":false,"error":{"code":"SERVICE_UNAVAILABLE","message":"full"}}`
	text := strings.Replace(refusal, "62", "73", 1)
	for _, c := range []struct {
		received string
		last     error
		want     string
		problems int
	}{
		{"", syscall.EAGAIN, "still open × 1", 0},
		{"", nil, "closed × 1", 0},
		{text, nil, "503 SERVICE_UNAVAILABLE × 1, closed × 1", 0},
		{text, syscall.ECONNRESET, "503 SERVICE_UNAVAILABLE × 1, reset × 1", 0},
		{text + text, nil, "503 SERVICE_UNAVAILABLE × 2, closed × 1", 0},
		{"go away", nil, "closed × 1", 1},
	} {
		s := &stage{tally: newTally()}
		s.settled([]byte(c.received), c.last)
		if got := s.tally.String(); got != c.want || len(s.problems)+len(s.tally.wrong()) != c.problems {
			t.Errorf("%q: %s %v %v, want %s", c.received, got, s.problems, s.tally.wrong(), c.want)
		}
	}
}

func TestExcuses(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	const unavailable, full = "503 FILTERED_DATA_UNAVAILABLE", "503 SERVICE_UNAVAILABLE"
	down, crowd := upstreamDown(), crowded()
	for _, e := range []*excuse{down, crowd} {
		e.beginAt(at(100))
		if e.allows(coldHit, unavailable, at(50)) || e.allows(hitNew, full, at(50)) {
			t.Error("an error before the fault is excused")
		}
		if !e.allows(coldHit, unavailable, at(150)) && !e.allows(hitNew, full, at(150)) {
			t.Error("an error during the fault is not excused")
		}
		e.endAt(at(200))
	}
	for _, c := range []struct {
		of            *excuse
		kind, failure string
		due           int
		want          bool
	}{
		{down, coldHit, unavailable, 74, false},
		{down, coldHit, unavailable, 76, true},
		{down, coldHit, unavailable, 214, true},
		{down, coldHit, unavailable, 216, false},
		{down, coldHit, "500 INTERNAL_ERROR", 150, false},
		{down, coldHit, "timeout", 150, false},
		{down, hitKept, full, 150, false},
		{down, hitNew, full, 150, false},
		{crowd, hitNew, full, 99, false},
		{crowd, hitNew, full, 201, true},
		{crowd, hitNew, full, 203, false},
		{crowd, hitNew, "connection closed", 150, true},
		{crowd, hitKept, full, 150, true},
		{crowd, hitKept, unavailable, 150, false},
		{crowd, hitKept, "timeout", 150, false},
	} {
		if got := c.of.allows(c.kind, c.failure, at(c.due)); got != c.want {
			t.Errorf("%s: %s, due at %d: %v, want %v", c.kind, c.failure, c.due, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	calm := func(hits ...time.Duration) *span {
		r := newReport()
		for _, took := range hits {
			r.record(hitKept, "", time.Time{}, took)
		}
		return new(quiet).span(r)
	}
	broken := newReport()
	broken.record(hitKept, "", time.Time{}, time.Millisecond)
	broken.record(coldHit, "503 SERVICE_UNAVAILABLE", time.Time{}, time.Millisecond)
	failed := new(quiet).span(broken)
	const ms = time.Millisecond
	for _, c := range []struct {
		name           string
		before, during *span
		want           []string
	}{
		{"as fast as before", calm(ms), calm(ms), nil},
		{"slower, but within the bound", calm(ms), calm(240 * ms), nil},
		{"slow before and after", calm(200 * ms), calm(390 * ms), nil},
		{"noticeably slower", calm(ms), calm(300 * ms), []string{"quiet tenants wait"}},
		{"an error during the abuse", calm(ms), failed, []string{"errors of quiet tenants: cold: 503 SERVICE_UNAVAILABLE (× 1)"}},
		{"an error before", failed, calm(ms), []string{"before the abuse"}},
	} {
		got := (&result{before: c.before, during: c.during}).judge(true)
		if untimed := (&result{before: c.before, during: c.during}).judge(false); len(untimed) > 0 && strings.Contains(untimed[0], "wait") {
			t.Errorf("%s: time counts where it must not: %q", c.name, untimed)
		}
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
