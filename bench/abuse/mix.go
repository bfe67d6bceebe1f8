package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sara/bench/internal/testbed"
)

// A mixture is a run of the abuses and all faults on one sara.
type mixture struct {
	world   *world
	replica *testbed.Replica
	redis   *testbed.Redis
	quiet   *quiet
	down    *excuse
	crowd   *excuse
	steady  *steadyAccount

	redisWasAway bool // so budgets were counted locally
	problems     []string
}

// abuses are what the mix does in turns: those that do not need a separate sara.
func abuses() []trial {
	return []trial{{name: "movers", abuse: movers}, {name: "heads", abuse: halfSentHeads}, {name: "failing", abuse: failing},
		{name: "idle", abuse: idleFromOne}, {name: "guesses", abuse: guessAll}, {name: "rows", abuse: flood},
		{name: "spenders", abuse: spenders}, {name: "lapsed", abuse: unbudgeted}, {name: "crowd", abuse: idleFromMany}}
}

// guessAll guesses keys from the address of the quiet tenants.
func guessAll(ctx context.Context, s *stage) error {
	const connections = 16
	s.sendAll(ctx, connections, s.guesses, func(int) *fasthttp.Request { return get("/v1/me", guess()) })
	return nil
}

// mix runs the mix for its duration, and prints a line for each turn and the verdict.
func (w *world) mix(ctx context.Context, out io.Writer) (err error) {
	m := &mixture{world: w, down: upstreamDown(), crowd: crowded()}
	if m.redis, err = w.startMixedRedis(); err != nil {
		return err
	}
	if m.replica, err = w.start("SARA_REDIS_URL=redis://" + m.redis.Address); err != nil {
		return err
	}
	if m.quiet, err = w.startQuiet(ctx, m.replica.Address, nil, m.down, m.crowd); err != nil {
		return err
	}
	m.steady = w.startSteady(ctx, m.replica.Address)
	watched, stop := (&stage{world: w, replica: m.replica}).watchDegraded(ctx)
	_, _ = fmt.Fprintln(out, mixHead)
	faults, abuses := w.faults(), abuses()
	began := time.Now()
	for n := 0; n < int(w.duration/w.turn) && ctx.Err() == nil && !hasEnded(m.replica); n++ {
		t, err := m.turn(ctx, abuses[n%len(abuses)], faults[(n+n/len(faults))%len(faults)]) // a different pair each time
		if err != nil {
			stop()
			return err
		}
		t.took = time.Since(began)
		_, _ = fmt.Fprintln(out, t.row())
	}
	stop()
	if local := <-watched; local > 0 {
		m.redisWasAway = true // or seemed to be, on a busy machine
		_, _ = fmt.Fprintf(out, "\nbudgets were counted locally in %d readings, ten a second\n", local)
	}
	return m.verdict(ctx, out)
}

// A turn is the result of one abuse and one fault together.
type turn struct {
	took         time.Duration // since the beginning of the mix
	abuse, fault string
	abuser       *tally
	quiet        *span
	admitted     int
	peak         int64
}

// turn repeats one abuse, and meanwhile makes one fault happen: in the second and the third quarter.
func (m *mixture) turn(ctx context.Context, abuse trial, fault fault) (*turn, error) {
	abusing, stop := context.WithTimeout(ctx, m.world.turn)
	defer stop()
	s := &stage{world: m.world, replica: m.replica, tally: newTally(), crowd: m.crowd}
	var group sync.WaitGroup
	group.Go(func() {
		const rest = 5 * time.Second
		for abusing.Err() == nil && !hasEnded(m.replica) {
			_ = abuse.abuse(abusing, s) // its own expectations do not hold with a fault
			pause(abusing, min(rest, m.world.turn/10))
		}
	})
	err := m.happen(ctx, fault)
	group.Wait()
	m.problems = append(m.problems, s.tally.wrong()...)
	met, cutErr := m.quiet.cut()
	if err = errors.Join(err, cutErr); err != nil {
		return nil, err
	}
	t := &turn{abuse: abuse.name, fault: fault.name, abuser: s.tally, quiet: met, admitted: m.steady.total()}
	if t.quiet.errors > 0 {
		m.problems = append(m.problems, fmt.Sprintf("%s with %s: %s", abuse.name, fault.name, t.quiet.failures()))
	}
	if !hasEnded(m.replica) {
		t.peak, _, err = m.world.peak(m.replica)
	}
	return t, err
}

// happen makes a fault happen, for half of a turn.
func (m *mixture) happen(ctx context.Context, f fault) error {
	quarter := m.world.turn / 4
	pause(ctx, quarter)
	if f.upstream {
		m.down.begin()
	}
	began := time.Now()
	err := f.begin(m)
	pause(ctx, 2*quarter-time.Since(began))
	err = errors.Join(err, f.end(m))
	if f.upstream {
		m.down.end()
	}
	pause(ctx, quarter)
	return err
}

const mixHead = "| after | abuse | fault | the abuser's answers | quiet tenants: requests | errors | documented errors | p99 of hits, ms |" +
	" p99 of cold, ms | admitted of the counted day | peak so far, MiB |\n|---|---|---|---|---|---|---|---|---|---|---|"

func (t *turn) row() string {
	failures := "0"
	if t.quiet.errors > 0 {
		failures = strings.ReplaceAll(t.quiet.failures(), "|", "\\|")
	}
	return fmt.Sprintf("| %v | %s | %s | %s | %d | %s | %d | %.1f | %.1f | %d | %d |", t.took.Round(time.Second), t.abuse, t.fault, t.abuser,
		t.quiet.requests, failures, t.quiet.excused, milliseconds(t.quiet.p99()), milliseconds(t.quiet.coldP99()), t.admitted, t.peak>>20)
}

// verdict stops everything, prints whether the mix passed, and returns an error if it did not.
func (m *mixture) verdict(ctx context.Context, out io.Writer) error {
	last, err := m.quiet.end()
	if err != nil {
		return err
	}
	if last.errors > 0 {
		m.problems = append(m.problems, "at the end: "+last.failures())
	}
	days := m.steady.end()
	_, problems, err := m.world.stop(m.replica)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	m.problems = append(m.problems, problems...)
	for day, admitted := range sorted(days) {
		allowed := m.world.steadyADay
		if m.redisWasAway { // then a replica admits its share of the day once; here that is all of it
			allowed *= 2
		}
		_, _ = fmt.Fprintf(out, "\n%d admitted on %s, of %d; while Redis is away, at most as many again\n", admitted, day, m.world.steadyADay)
		if admitted > allowed {
			m.problems = append(m.problems, fmt.Sprintf("a day of %d admitted %d", m.world.steadyADay, admitted))
		}
	}
	if len(m.problems) > 0 {
		return fmt.Errorf("the mix failed:\n%s", strings.Join(m.problems, "\n"))
	}
	_, err = fmt.Fprintln(out, "\npassed: no quiet tenant was harmed")
	return err
}
