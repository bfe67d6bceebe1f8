package proxy

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/policy/redistest"
	"sara/proxy/openapi"
	"sara/translate"
)

// again repeats a request until it is memoized.
func (w *world) again(t *testing.T, key, path string) (r response) {
	t.Helper()
	w.await(t, "the meaning of "+path, func() bool {
		r = w.get(key, path).ok(t)
		return w.remembers(key, path)
	})
	return r
}

// remembers reports whether a request is memoized.
func (w *world) remembers(key, path string) bool {
	ctx := w.request(path)
	ctx.Request.Header.Set("Authorization", "Bearer "+w.keys[key])
	f := w.server.headers.read(ctx)
	return w.server.memo.find(ctx, &f) != nil
}

// A request is memoized once its answer was found, in Redis or in memory, but not when it has called the upstream: it may be the only one
// of its kind.
func TestQueries200MemoizedOnceFound(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other := w.replica(over(server.Client()))
	path := w.path("main", "/queries?limit=10")
	answered := func(by *world, status string) {
		t.Helper()
		if got := by.get("pro", path).ok(t).header.Get("X-Cache"); got != status {
			t.Errorf("a %s, want a %s", got, status)
		}
		if by.remembers("pro", path) != (status == cacheHit) {
			t.Errorf("after a %s, memoized is %t", status, by.remembers("pro", path))
		}
	}
	answered(w, cacheMiss)
	w.await(t, "the rows in Redis", func() bool {
		keys := server.Client().Keys(t.Context(), "sara:c:*").Val()
		return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":lease") })
	})
	answered(other, cacheHit)
	answered(w, cacheHit)
}

// A memoized request is admitted again each time: no entry of the memo outlives a change.
func TestSummary200Memoized(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	elsewhere := func(w *world, do func() error) {
		w.must(do())
		w.advance(time.Second + time.Millisecond)
	}
	for name, test := range map[string]struct {
		change func(w *world)
		status int
		code   string
	}{
		"revoked": {func(w *world) { _, err := w.store.RevokeKey(ctx, w.keyIDs["pro"]); w.must(err) }, http.StatusUnauthorized, policy.CodeRevokedKey},
		"revoked elsewhere": {func(w *world) {
			elsewhere(w, func() error { _, err := w.openStore().RevokeKey(ctx, w.keyIDs["pro"]); return err })
		}, http.StatusUnauthorized, policy.CodeRevokedKey},
		"no member any more": {func(w *world) { w.must(w.store.LeaveWorkspace(ctx, "pro@example.com", "Main")) }, http.StatusNotFound, policy.CodeNotFound},
		"no member any more, elsewhere": {func(w *world) {
			elsewhere(w, func() error { return w.openStore().LeaveWorkspace(ctx, "pro@example.com", "Main") })
		}, http.StatusNotFound, policy.CodeNotFound},
		"another plan": {func(w *world) { _, err := w.store.SetPlan(ctx, "Pro", "trial", nil); w.must(err) },
			http.StatusForbidden, policy.CodeNoAccess},
		"invalidated by another replica": {func(w *world) { w.server.Invalidate() }, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			path := w.path("main", "/summary")
			w.again(t, "pro", path)
			test.change(w)
			if r := w.get("pro", path); test.status == http.StatusOK {
				r.ok(t)
			} else {
				r.want(t, test.status, test.code)
			}
		})
	}
}

func TestSummary200MemoizedByTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expiry := noon().Add(10 * time.Second)
	w.addKey("short", "pro@example.com", &expiry)
	path := w.path("main", "/summary")
	w.again(t, "short", path)
	w.clock.Store(expiry.Add(-time.Millisecond).UnixNano())
	w.get("short", path).ok(t)
	w.clock.Store(expiry.UnixNano())
	w.get("short", path).want(t, http.StatusUnauthorized, policy.CodeExpiredKey)

	_, err := w.store.SetPlan(t.Context(), "Pro", "pro", dateOf(t, "2026-11-21"))
	w.must(err)
	w.setClock("2026-11-21T23:59:59Z")
	w.again(t, "pro", path)
	w.setClock("2026-11-22T00:00:00Z")
	w.get("pro", path).want(t, http.StatusForbidden, policy.CodeNoAccess)

	w.setClock("2026-11-22T07:59:59Z") // the last second of a Pacific day
	before := w.again(t, "agency", path).meta()["date_range"]
	w.setClock("2026-11-22T08:00:00Z")
	if after := w.get("agency", path).ok(t).meta()["date_range"]; reflect.DeepEqual(after, before) {
		t.Errorf("on the next day the last 28 days are still %v", after)
	}
}

// The memo distinguishes keys: the same URL under another key is another request, charged to that key's account.
func TestSummary200MemoizedWithAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerDay = 8 }))
	path := w.path("main", "/summary")
	w.get("pro", path).ok(t)
	w.get("pro", path).ok(t)
	w.again(t, "pro", path)
	w.get("properties_only", path).want(t, http.StatusForbidden, policy.CodeScope)
	w.ask(http.MethodGet, path).want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
	w.ask(http.MethodPost, path, "Bearer "+w.keys["pro"]).want(t, http.StatusMethodNotAllowed, openapi.CodeMethodNotAllowed)
	for range 4 {
		w.get("pro", path).ok(t)
	}
	w.wantUsage(t, "pro", 8, 8, 1)
	w.get("pro", path).want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
	w.again(t, "agency", path)
}

// Brand and page group filters are not memoized: their configuration is looked up each time.
func TestSummary200MemoizedWithOtherBrandTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/summary") + `?filters=%5B%7B%22dimension%22%3A%22brand%22%2C%22operator%22%3A%22is%22%2C%22value%22%3A%22brand%22%7D%5D`
	for range 3 {
		w.get("pro", path).ok(t)
	}
	_, err := w.openStore().SetBrandTerms(t.Context(), w.properties["main"].ID, []translate.BrandTerm{{Term: "zzz", MatchType: "exact"}})
	w.must(err)
	if clicks := w.get("pro", path).ok(t).data()["totals"].(map[string]any)["clicks"]; clicks != 0.0 {
		t.Errorf("a brand without searches has %v clicks", clicks)
	}
}

// The memory of a call is used again by the next request on its connection, and refers to nothing that the cache may drop. If
// work that goes on without the request may refer to it, the next request gets other memory.
func TestQueries200MemoizedUsesItsCallAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries?start_date=2026-10-01&end_date=2026-10-31") // which stays fresh for longer than no-cache accepts
	w.again(t, "pro", path)
	ctx := w.request(path)
	answer := func(cacheControl string) *exchange {
		ctx.Response.Reset()
		ctx.Request.Header.Set(fasthttp.HeaderCacheControl, cacheControl)
		w.server.edge.Handler(ctx)
		if body := ctx.Response.Body(); ctx.Response.StatusCode() != http.StatusOK || len(body) < compressFrom {
			t.Fatalf("answers %d %s", ctx.Response.StatusCode(), body)
		}
		return connectionOf(ctx).spare
	}
	first := answer("")
	if first == nil || answer("") != first {
		t.Fatal("the second request has memory of its own")
	}
	if first.body.head != nil || first.memoized != nil || first.params != nil || first.property != nil || first.grant != nil {
		t.Errorf("after its answer, a call refers to %+v", first)
	}
	header := w.server.headers.read(ctx)
	if m := w.server.memo.find(ctx, &header); m.request.call != nil {
		t.Error("the memo refers to the call that it was made from")
	}
	w.clock.Add(int64(freshAtAnchor))
	w.again(t, "pro", path)
	if answer("no-cache") != nil {
		t.Error("a request that called the upstream left its call to the next one")
	}
	if next := answer(""); next == nil || next == first {
		t.Error("a request after one that called the upstream has no memory, or that of the other one")
	}
}
