package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A steadyAccount asks at a fixed rate, all the time, until its day is used up and after. It is safe for concurrent use.
type steadyAccount struct {
	stop  context.CancelFunc
	ended chan struct{}

	mu       sync.Mutex
	admitted map[string]int // by the day in UTC
}

func (w *world) startSteady(ctx context.Context, address string) *steadyAccount {
	ctx, stop := context.WithCancel(ctx)
	a := &steadyAccount{stop: stop, ended: make(chan struct{}), admitted: map[string]int{}}
	go func() {
		defer close(a.ended)
		client := newClient(address)
		defer client.CloseIdleConnections()
		var group sync.WaitGroup
		defer group.Wait()
		every(ctx, time.Duration(float64(time.Second)/w.steadyRate), w.duration+time.Hour, func(int) {
			group.Go(func() { a.ask(client, get("/v1/me", w.Keys[w.steady][0])) })
		})
	}()
	return a
}

func (a *steadyAccount) ask(client *fasthttp.HostClient, request *fasthttp.Request) {
	var response fasthttp.Response
	if err := client.DoTimeout(request, &response, quietPatience); err != nil || response.StatusCode() != http.StatusOK {
		return
	}
	day, err := http.ParseTime(string(response.Header.Peek(fasthttp.HeaderDate)))
	if err != nil {
		day = time.Now()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted[day.UTC().Format(time.DateOnly)]++
}

func (a *steadyAccount) total() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, admitted := range a.admitted {
		n += admitted
	}
	return n
}

func (a *steadyAccount) end() map[string]int {
	a.stop()
	<-a.ended
	return a.admitted
}
