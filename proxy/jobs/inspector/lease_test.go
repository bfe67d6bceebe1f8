package inspector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"sara/proxy/jobs/schedule"
)

func TestLeaseKeepsInspectorsOffOneProperty(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	w := newUpstream(t, nil, "shop", "blog")
	w.serve(shopMap, urls("shop", 5)...)
	w.serve("https://blog.example/sitemap.xml", urls("blog", 5)...)
	begun := make(chan struct{})
	var once sync.Once
	finish := make(chan struct{})
	w.during = func(_ context.Context, url string) {
		if hostOf(url) == "shop" {
			once.Do(func() { close(begun) })
			<-finish
		}
	}
	one := w.inspector(func(c *Config) { c.Wait = time.Nanosecond })
	var running sync.WaitGroup
	running.Go(func() {
		if r := value(one.Inspect(context.Background(), w.properties("shop"), Options{}))(t)[0]; r.Err != nil || r.Inspected != 5 {
			t.Errorf("the first: %+v", r)
		}
	})
	<-begun
	for name, other := range map[string]*Inspector{
		"another process": w.inspector(func(c *Config) { c.Holder, c.Wait = "another", time.Nanosecond }), "another run": one,
	} {
		results := value(other.Inspect(context.Background(), w.properties("shop", "blog"), Options{}))(t)
		if !errors.Is(results[0].Err, ErrTaken) || results[1].Err != nil {
			t.Errorf("%s: %v, %v", name, results[0].Err, results[1].Err)
		}
	}
	close(finish)
	running.Wait()
	inspected := w.inspectedURLs()
	slices.Sort(inspected)
	equal(t, "calls", inspected, append(urls("blog", 5), urls("shop", 5)...))
}

func TestInspectWaitsForLeaseOfDeadProcessToExpire(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 5)...)
		if got := value(w.store.AcquireLease(context.Background(), "inspect/"+w.property("shop").PropertyID, "the dead", schedule.LeaseTTL))(t); !got {
			t.Fatal("the lease is taken")
		}
		began := time.Now()
		if r := w.inspect("shop", Options{}); r.Err != nil || r.Inspected != 5 {
			t.Errorf("%+v", r)
		}
		if waited := time.Since(began); waited < schedule.LeaseTTL || waited > DefaultWait+5*time.Second {
			t.Errorf("waited %v", waited)
		}
		equal(t, "pauses", slices.DeleteFunc(w.events, func(event string) bool { return event != "paused" }), []string{"paused"})
	})
}
