package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// askerCommand makes this program the asker: the quiet tenants' client, in its own process. In the abuser's process, a
// quiet tenant's latency would include the time in which the abuser's own goroutines hold the processors.
const askerCommand = "ask"

// An asker asks the quiet tenants' questions at a fixed rate, whatever happens to the answers. Latencies count from the time at
// which a request was due, so one that could not be sent also counts.
type asker struct {
	questions
	hits  *fasthttp.HostClient // over kept connections
	fresh int                  // numbers the cold questions

	mu  sync.Mutex
	now *report
}

// questions are what an asker asks, and of whom.
type questions struct {
	Address           string
	Headers           []string // names and values
	Tenants           []tenantQuestions
	HitRate, ColdRate float64 // requests a second, of all tenants together
}

// tenantQuestions are those of one tenant.
type tenantQuestions struct {
	Key, Property, Hit string
}

// A report is what an asker experienced since the last one, as one line of JSON.
type report struct {
	Requests   int
	Failures   []failure
	Hits, Cold *hdrhistogram.Snapshot // of the latencies

	hits, cold *hdrhistogram.Histogram
}

// A failure is a question without a good answer.
type failure struct {
	Kind, How string
	Due       time.Time
}

const (
	quietPatience = 30 * time.Second // longer than sara takes for any answer
	newEvery      = 10               // every tenth cached question comes on a new connection
	askerReady    = "asking"         // printed once all tenants' cached questions have been asked
	reportHead    = "report "
)

// Kinds of questions, as errors name them.
const (
	hitKept = "hit"
	hitNew  = "hit on a new connection"
	coldHit = "cold"
)

func newReport() *report { return &report{hits: newLatencies(), cold: newLatencies()} }

func newLatencies() *hdrhistogram.Histogram {
	const longest, digits = int64(time.Minute), 2
	return hdrhistogram.New(1, longest, digits)
}

// runAsker reads questions from a file and asks them. It prints a report on SIGUSR1, and the last one when ctx has ended.
func runAsker(ctx context.Context, file string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	a := &asker{now: newReport()}
	if err := json.Unmarshal(text, &a.questions); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	a.hits = newClient(a.Address)
	cut := make(chan os.Signal, 1)
	signal.Notify(cut, syscall.SIGUSR1)
	for _, t := range a.Tenants {
		a.ask(a.hits, hitKept, t.Hit, t, time.Now())
	}
	if _, err := fmt.Fprintln(out, askerReady); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.askAll(ctx)
	}()
	for {
		select {
		case <-cut:
			if err := a.print(out); err != nil {
				return err
			}
		case <-ended:
			a.hits.CloseIdleConnections()
			return a.print(out)
		}
	}
}

// askAll asks until ctx ends, and waits for the answers in flight.
func (a *asker) askAll(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	coldEvery := int(a.HitRate / a.ColdRate)
	a.schedule(ctx, func(n int, due time.Time) {
		group.Go(func() { a.askHit(n, due) })
		if n%coldEvery == 0 {
			t := a.Tenants[n/coldEvery%len(a.Tenants)]
			a.fresh++
			path := coldQuestion(t.Property, fmt.Sprint("yyy", a.fresh))
			group.Go(func() { a.ask(a.hits, coldHit, path, t, due) })
		}
	})
}

// schedule calls send when the n-th cached question is due, until ctx ends. If it is late because this process gets no processor, the
// times do not move: a ticker would skip the questions that suffer most.
func (q *questions) schedule(ctx context.Context, send func(n int, due time.Time)) {
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(float64(n+1) / q.HitRate * float64(time.Second)))
		if pause(ctx, time.Until(due)); ctx.Err() != nil {
			return
		}
		send(n, due)
	}
}

// askHit sends the n-th cached question.
func (a *asker) askHit(n int, due time.Time) {
	t := a.Tenants[n%len(a.Tenants)]
	if n%newEvery != 0 {
		a.ask(a.hits, hitKept, t.Hit, t, due)
		return
	}
	client := newClient(a.Address)
	a.ask(client, hitNew, t.Hit, t, due)
	client.CloseIdleConnections()
}

// ask sends one question of a tenant, and records the answer.
func (a *asker) ask(client *fasthttp.HostClient, kind, path string, t tenantQuestions, due time.Time) {
	var response fasthttp.Response
	err := client.DoTimeout(get(path, t.Key, a.Headers...), &response, quietPatience)
	took := time.Since(due)
	how := ""
	switch {
	case err != nil:
		how = describe(err)
	case response.StatusCode() != fasthttp.StatusOK:
		var problem string
		if how, problem = classify(response.StatusCode(), "1", response.Body()); problem != "" {
			how = problem
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now.record(kind, how, due, took)
}

func (r *report) record(kind, how string, due time.Time, took time.Duration) {
	r.Requests++
	if how != "" {
		r.Failures = append(r.Failures, failure{kind, how, due})
	}
	latency := r.hits
	if kind == coldHit {
		latency = r.cold
	}
	_ = latency.RecordValue(int64(min(took, time.Minute))) // fails only out of range
}

// print prints the report, and begins the next.
func (a *asker) print(out io.Writer) error {
	a.mu.Lock()
	last := a.now
	a.now = newReport()
	a.mu.Unlock()
	last.Hits, last.Cold = last.hits.Export(), last.cold.Export()
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s%s\n", reportHead, text)
	return err
}

// parseReport reads a report that print has written, without its head.
func parseReport(text string) (*report, error) {
	r := &report{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, err
	}
	if r.Hits == nil || r.Cold == nil {
		return nil, errors.New("a report without latencies")
	}
	r.hits, r.cold = hdrhistogram.Import(r.Hits), hdrhistogram.Import(r.Cold)
	return r, nil
}
