package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sara/bench/internal/testbed"
	"sara/bench/trace"
	"sara/policy"
	"sara/proxy/upstream/gscsim"
)

// agencyPlan is the plan of the runs with limits.
const agencyPlan = "agency"

// A cost is what a step used.
type cost struct {
	Requests int // admitted, by the server's own count
	Calls    int // of search analytics, by the simulator's
	Seconds  float64
	Refused  string // the refusal that ended it; empty: it ended by itself
	Wait     time.Duration
}

// A site is a sara with the agency's properties.
type site struct {
	options
	bed    *testbed.Testbed
	client http.Client
	ids    []string // of the properties
	anchor trace.Day
	turn   atomic.Int64 // counts requests, which take turns with the keys
	admits atomic.Int64 // counts those that were admitted
}

// open starts a sara. plan is the accounts' plan; empty for none.
func open(ctx context.Context, o options, plan string) (_ *site, err error) {
	account := testbed.Account{People: o.keys, Plan: plan}
	for i := range o.properties {
		p := testbed.Property{Domain: trace.Domain(i)}
		if i == 0 {
			p.Queries = o.rows * 11 / 10
		}
		account.Properties = append(account.Properties, p)
	}
	c := testbed.Config{Binary: o.binary, Accounts: []testbed.Account{account}, Site: gscsim.Site{Queries: 60, Pages: 30}, Replicas: 1,
		Upstream: func(simulator http.Handler) http.Handler { return slow(simulator, o.latency) }}
	if plan != "" {
		c.Plans = policy.Plans{plan: policy.DefaultPlans()[plan]}
	}
	s := &site{options: o, client: http.Client{Timeout: time.Minute}}
	if s.anchor, err = trace.Anchor(time.Now()); err != nil {
		return nil, err
	}
	if s.bed, err = testbed.Start(ctx, c); err != nil {
		return nil, err
	}
	return s, nil
}

// slow delays the search analytics calls by as long as Google takes.
func slow(next http.Handler, latency time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
			select {
			case <-time.After(latency):
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *site) close() error {
	s.client.CloseIdleConnections()
	return s.bed.Close()
}

// errRefused is a 429 that lasts longer than a minute.
var errRefused = errors.New("refused")

// get sends a request with one of the keys in turn. It waits out a per-minute limit; for a longer wait, it returns errRefused with the time.
func (s *site) get(ctx context.Context, keys int, path string, query url.Values, into any) (refusal string, wait time.Duration, err error) {
	key := s.bed.Keys[0][int(s.turn.Add(1))%keys]
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.bed.Replicas[0].Address+path+"?"+query.Encode(), nil)
		if err != nil {
			return "", 0, err
		}
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := s.client.Do(request)
		if err != nil {
			return "", 0, err
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return "", 0, err
		}
		if response.StatusCode == http.StatusOK {
			s.admits.Add(1)
			return "", 0, json.Unmarshal(body, into)
		}
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		wait := time.Duration(seconds) * time.Second
		if response.StatusCode != http.StatusTooManyRequests {
			return "", 0, fmt.Errorf("%s: %s %s", path, response.Status, body)
		}
		if wait > time.Minute {
			var refused struct{ Error struct{ Message string } }
			_ = json.Unmarshal(body, &refused) // otherwise it has no message
			return refused.Error.Message, wait, errRefused
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return "", 0, ctx.Err()
		}
	}
}

// list reads the ids of the properties.
func (s *site) list(ctx context.Context, keys int) (c cost, err error) {
	for len(s.ids) < s.properties {
		var page struct {
			Data struct {
				Rows []struct{ ID string }
			}
		}
		query := url.Values{"limit": {"200"}, "offset": {strconv.Itoa(len(s.ids))}}
		if c.Refused, c.Wait, err = s.get(ctx, keys, "/v1/properties", query, &page); err != nil {
			return c, err
		}
		if len(page.Data.Rows) == 0 {
			return c, fmt.Errorf("the key reaches %d properties, not %d", len(s.ids), s.properties)
		}
		for _, row := range page.Data.Rows {
			s.ids = append(s.ids, row.ID)
		}
	}
	return c, nil
}

// each sends requests for all properties, eight at a time: the number that a server sends to Search Console for one account.
func (s *site) each(ctx context.Context, keys int, path string, query url.Values) (c cost, err error) {
	const atOnce = 8
	var mu sync.Mutex // guards c and err
	next := make(chan string)
	var working sync.WaitGroup
	for range atOnce {
		working.Go(func() {
			for id := range next {
				var any struct{}
				refusal, wait, failed := s.get(ctx, keys, "/v1/properties/"+id+path, query, &any)
				if failed != nil {
					mu.Lock()
					c.Refused, c.Wait, err = refusal, wait, failed
					mu.Unlock()
				}
			}
		})
	}
	for _, id := range s.ids {
		mu.Lock()
		failed := err
		mu.Unlock()
		if failed != nil {
			break
		}
		next <- id
	}
	close(next)
	working.Wait()
	return c, err
}

// portfolio reads the figures of all properties at once.
func (s *site) portfolio(ctx context.Context, query url.Values) (c cost, err error) {
	const attempts = 20
	query.Set("limit", "200")
	for offset := 0; offset < s.properties; offset += 200 {
		query.Set("offset", strconv.Itoa(offset))
		var page struct {
			Data struct {
				Rows []struct{ Error *struct{ Code string } }
			}
		}
		for attempt := 1; ; attempt++ {
			if c.Refused, c.Wait, err = s.get(ctx, 1, "/v1/portfolio", query, &page); err != nil {
				return c, err
			}
			failed := 0
			for _, row := range page.Data.Rows {
				if row.Error != nil {
					failed++
				}
			}
			if failed == 0 {
				break
			}
			if attempt == attempts { // ask again for what did not answer within the deadline
				return c, fmt.Errorf("after %d attempts, %d properties have no figures", attempts, failed)
			}
		}
	}
	return c, nil
}

// wholeTable reads all queries of the first property, page by page.
func (s *site) wholeTable(ctx context.Context) (c cost, err error) {
	for offset := 0; ; offset += 1000 {
		var page struct {
			Data struct{ Rows []struct{} }
			Meta struct {
				HasMore bool `json:"has_more"`
			}
		}
		query := url.Values{"limit": {"1000"}}
		if offset > 0 {
			query.Set("offset", strconv.Itoa(offset))
		}
		if c.Refused, c.Wait, err = s.get(ctx, 1, "/v1/properties/"+trace.Domain(0)+"/queries", query, &page); err != nil ||
			!page.Meta.HasMore || offset+1000 >= s.rows {
			return c, err
		}
	}
}

// export runs sara report.
func (s *site) export(ctx context.Context, name string, args ...string) (c cost, err error) {
	folder, err := os.MkdirTemp("", "sara-report-")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	command := s.bed.Command(ctx, append([]string{"report", "--url", "http://" + s.bed.Replicas[0].Address, "--all", "--quiet", "--output",
		filepath.Join(folder, name)}, args...)...)
	command.Env = append(command.Env, "SARA_API_KEY="+s.bed.Keys[0][0])
	said, err := command.CombinedOutput()
	if err != nil {
		return c, fmt.Errorf("sara report: %w\n%s", err, said)
	}
	return c, nil
}

// measure runs a step, and counts what it uses.
func (s *site) measure(ctx context.Context, step func() (cost, error)) (cost, error) {
	before, err := s.used(ctx)
	if err != nil {
		return cost{}, err
	}
	calls, admitted, began := s.bed.Calls(), s.admits.Load(), time.Now()
	c, err := step()
	c.Seconds = time.Since(began).Seconds()
	c.Calls = int(s.bed.Calls() - calls)
	if errors.Is(err, errRefused) {
		c.Requests = int(s.admits.Load() - admitted) // the server does not report it: it refuses /v1/me too
		return c, nil
	}
	if err != nil {
		return c, err
	}
	after, err := s.used(ctx)
	c.Requests = after - before - 1 // except the one that asks
	return c, err
}

// used returns the requests that the account has been charged for today.
func (s *site) used(ctx context.Context) (int, error) {
	var me struct {
		Data struct {
			Usage struct {
				Today int `json:"requests_today"`
			}
		}
	}
	_, _, err := s.get(ctx, 1, "/v1/me", nil, &me)
	if errors.Is(err, errRefused) {
		err = nil
	}
	return me.Data.Usage.Today, err
}
