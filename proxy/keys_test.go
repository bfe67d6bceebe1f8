package proxy

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy"
	"sara/proxy/openapi"
)

// ask sends a request with exactly these Authorization headers.
func (w *world) ask(method, path string, authorization ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(method, w.base+path, nil)
	w.must(err)
	request.Header["Authorization"] = authorization
	return w.do(request)
}

// keyedRoutes are the routes that need a key, by operation, with the path of a property that the test keys reach.
func (w *world) keyedRoutes() map[string]route {
	routes := map[string]route{}
	for _, r := range table() {
		if !r.Open {
			r.Path = strings.Replace(r.Path, "{id}", w.properties["main"].ID, 1)
			routes[r.Operation] = r
		}
	}
	return routes
}

func TestEveryEndpoint401(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.keys["pro"]
	unknown, _ := policy.NewKey("sara")
	foreign, _ := policy.NewKey("other")
	cases := []struct {
		name          string
		authorization []string
		code          string
	}{
		{"no header", nil, policy.CodeInvalidKey},
		{"an empty header", []string{""}, policy.CodeInvalidKey},
		{"two headers", []string{"Bearer " + good, "Bearer " + good}, policy.CodeInvalidKey},
		{"two headers, one of them empty", []string{"Bearer " + good, ""}, policy.CodeInvalidKey},
		{"another scheme", []string{"Basic " + good}, policy.CodeInvalidKey},
		{"no scheme", []string{good}, policy.CodeInvalidKey},
		{"a scheme alone", []string{"Bearer"}, policy.CodeInvalidKey},
		{"another prefix", []string{"Bearer " + foreign}, policy.CodeInvalidKey},
		{"no live key", []string{"Bearer " + strings.Replace(good, "_live_", "_test_", 1)}, policy.CodeInvalidKey},
		{"an unknown key", []string{"Bearer " + unknown}, policy.CodeInvalidKey},
		{"a key cut short", []string{"Bearer " + good[:len(good)-1]}, policy.CodeInvalidKey},
		{"a key with more", []string{"Bearer " + good + "A"}, policy.CodeInvalidKey},
		{"two keys", []string{"Bearer " + good + ", Bearer " + good}, policy.CodeInvalidKey},
		{"a key in the other case", []string{"Bearer " + strings.ToLower(good)}, policy.CodeInvalidKey},
		{"a very long key", []string{"Bearer " + good + strings.Repeat("A", 4000)}, policy.CodeInvalidKey},
		{"the prefix alone", []string{"Bearer sara_live_"}, policy.CodeInvalidKey},
		{"a revoked key", []string{"Bearer " + w.keys["revoked"]}, policy.CodeRevokedKey},
		{"an expired key", []string{"Bearer " + w.keys["expired"]}, policy.CodeExpiredKey},
	}
	for _, operation := range slices.Sorted(maps.Keys(w.keyedRoutes())) {
		r := w.keyedRoutes()[operation]
		for i, c := range cases {
			if operation != "getSummary" && i%6 != len(operation)%6 && i < len(cases)-2 {
				continue // each case covers some endpoints, and one endpoint covers all cases
			}
			w.run(operation+"/"+c.name, func(t *testing.T) {
				w.advance(3 * time.Second) // guessing keys is limited by address
				answer := w.ask(http.MethodGet, r.Path+"?nonsense=1", c.authorization...)
				answer.want(t, http.StatusUnauthorized, c.code)
				h := answer.header
				if h.Get("Www-Authenticate") != "Bearer" || h.Get("X-Ratelimit-Limit") != "0" || h.Get("X-Ratelimit-Remaining") != "0" ||
					h.Get("X-Ratelimit-Reset") != strconv.FormatInt(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).Unix(), 10) {
					t.Errorf("headers %v", h)
				}
				if strings.Contains(string(answer.body), good[12:]) {
					t.Errorf("the answer repeats the key: %s", answer.body)
				}
			})
		}
	}
	w.wantNoSecrets()
}

func TestMe200Authorization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, header := range []string{"Bearer ", "bearer ", "BEARER ", "Bearer  "} {
		w.ask(http.MethodGet, "/v1/me", header+w.keys["pro"]).ok(t)
	}
}

// What has not the form of a key is refused without the store, however often it is tried.
func TestAnyEndpoint401InvalidKeyWithoutLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.keys["pro"]
	i := len(good) - 20
	mistyped := good[:i] + map[bool]string{true: "B", false: "A"}[good[i] == 'A'] + good[i+1:]
	w.must(w.store.Close())
	for operation, r := range w.keyedRoutes() {
		for _, key := range []string{mistyped, good[:len(good)-1], strings.ToLower(good), "sara_live_", "nonsense"} {
			w.run(operation+"/"+key, func(t *testing.T) {
				w.ask(http.MethodGet, r.Path, "Bearer "+key).want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
			})
		}
	}
	w.ask(http.MethodGet, "/v1/me", "Bearer "+good).want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
}

// After a restart no key is cached. While someone behind the same address guesses, all others are looked up, and none is refused.
func TestValidKeysNever429BehindAGuessingAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var keys []string
	for a := range 7 {
		account, email := fmt.Sprint("Account ", a), fmt.Sprintf("person%d@example.com", a)
		_, err := w.store.AddAccount(t.Context(), account, "agency", nil)
		w.must(err)
		_, err = w.store.AddWorkspace(t.Context(), account, account)
		w.must(err)
		_, err = w.store.AddPerson(t.Context(), account, email, []string{account})
		w.must(err)
		for k := range 9 {
			key, hash := policy.NewKey("sara")
			_, err := w.store.CreateKey(t.Context(), keySpec(email, fmt.Sprint("key ", k), hash, nil), func(string) int { return 10 })
			w.must(err)
			keys = append(keys, key)
		}
	}
	w = w.replica()
	for range 40 {
		w.ask(http.MethodGet, "/v1/me", "Bearer "+guess())
	}
	w.ask(http.MethodGet, "/v1/me", "Bearer "+guess()).want(t, http.StatusTooManyRequests, policy.CodeRateLimited)
	statuses := make(chan int)
	var asking, guessing sync.WaitGroup
	ended := make(chan struct{})
	guessing.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				_, _ = w.statusOf("/v1/me", guess())
			}
		}
	})
	for _, key := range keys {
		asking.Go(func() {
			for range 4 {
				status, err := w.statusOf("/v1/me", key)
				if err != nil {
					t.Error(err)
				}
				statuses <- status
			}
		})
	}
	for range 4 * len(keys) {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a valid key is answered %d", status)
		}
	}
	close(ended)
	asking.Wait()
	guessing.Wait()
}

// statusOf requests a path with a key; unlike the other methods it can be called from any goroutine.
func (w *world) statusOf(path, key string) (int, error) {
	request, err := http.NewRequest(http.MethodGet, w.base+path, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// The whole table of endpoints and scopes.
func TestEveryEndpoint403Scope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	need := map[string]string{"getAccount": "", "listAnomalies": "", "listProperties": "properties_only", "getProperty": "properties_only",
		"listBrandTerms": "config_only", "listPageGroups": "config_only", "listAnnotations": "config_only", "getIndexing": "indexing_only",
		"listIndexedURLs": "indexing_only"}
	for operation, r := range w.keyedRoutes() {
		needed, listed := need[operation]
		if !listed {
			needed = "performance_only"
		}
		for _, key := range []string{"properties_only", "performance_only", "indexing_only", "config_only"} {
			w.run(operation+"/"+key, func(t *testing.T) {
				if key == needed || needed == "" {
					w.get(key, r.Path).ok(t)
					return
				}
				answer := w.get(key, r.Path, "nonsense", "1")
				answer.want(t, http.StatusForbidden, policy.CodeScope, strings.Replace(needed, "_only", ":read", 1))
				if limit := answer.header.Get("X-Ratelimit-Limit"); limit != strconv.Itoa(w.config.Admission.Plans["agency"].RequestsPerDay) {
					t.Errorf("X-RateLimit-Limit is %s", limit)
				}
			})
		}
	}
}

func TestEveryEndpoint403Plan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for operation, r := range w.keyedRoutes() {
		for _, key := range []string{"trial", "lapsed"} {
			w.run(operation+"/"+key, func(t *testing.T) {
				w.get(key, r.Path, "nonsense", "1").want(t, http.StatusForbidden, policy.CodeNoAccess)
			})
		}
	}
}

// A property that a key does not reach looks as if it did not exist.
func TestEveryEndpoint404(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	missing := "01a1fe00-0000-7000-8000-000000000000"
	for _, r := range table() {
		if !strings.Contains(r.Path, "{id}") {
			continue
		}
		w.run(r.Operation, func(t *testing.T) {
			words := func(key, reference string) string {
				answer := w.get(key, strings.Replace(r.Path, "{id}", reference, 1))
				answer.want(t, http.StatusNotFound, policy.CodeNotFound)
				return strings.ReplaceAll(answer.message(), reference, "X")
			}
			want := words("pro", missing)
			for _, foreign := range []string{w.properties["foreign"].ID, "foreign", "foreign.example"} {
				if got := words("pro", foreign); got != want {
					t.Errorf("a foreign property: %q, a missing one: %q", got, want)
				}
			}
			for _, elsewhere := range []string{w.properties["prefix"].ID, "shop", "www.example.org"} {
				if got := words("workspace_scoped", elsewhere); got != want {
					t.Errorf("a property of another workspace: %q, a missing one: %q", got, want)
				}
			}
		})
	}
}

// A key stops working at the instant of its expiry, a plan at the end of its last day in UTC.
func TestKeysFollowTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expiry := noon().Add(time.Hour)
	w.addKey("short", "pro@example.com", &expiry)
	_, err := w.store.SetPlan(t.Context(), "Agency", "agency", dateOf(t, "2026-11-21"))
	w.must(err)
	w.get("short", "/v1/me").ok(t)
	w.get("agency", "/v1/me").ok(t)
	w.clock.Store(expiry.Add(-time.Millisecond).UnixNano())
	w.get("short", "/v1/me").ok(t)
	w.clock.Store(expiry.UnixNano())
	w.get("short", "/v1/me").want(t, http.StatusUnauthorized, policy.CodeExpiredKey)
	w.setClock("2026-11-21T23:59:59Z")
	w.get("agency", "/v1/me").ok(t)
	w.setClock("2026-11-22T00:00:00Z")
	w.get("agency", "/v1/me").want(t, http.StatusForbidden, policy.CodeNoAccess)
	w.get("pro", "/v1/me").ok(t)
}

// addKey adds a valid key of a person.
func (w *world) addKey(name, email string, expires *time.Time) {
	w.t.Helper()
	key, hash := policy.NewKey("sara")
	added, err := w.store.CreateKey(w.t.Context(), keySpec(email, name, hash, expires), func(string) int { return 10 })
	w.must(err)
	w.keys[name], w.keyIDs[name] = key, added.ID
}

// A change by this process applies at once, one by another process within a second.
func TestKeysFollowTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	main := w.path("main", "")
	w.addKey("third", "pro@example.com", nil)
	w.get("third", main).ok(t)
	_, err := w.store.RevokeKey(ctx, w.keyIDs["third"])
	w.must(err)
	w.get("third", main).want(t, http.StatusUnauthorized, policy.CodeRevokedKey)

	w.get("pro", main).ok(t)
	w.must(w.store.LeaveWorkspace(ctx, "pro@example.com", "Main"))
	w.get("pro", main).want(t, http.StatusNotFound, policy.CodeNotFound)
	w.get("workspace_scoped", main).ok(t)
	w.must(w.store.LeaveWorkspace(ctx, "agency@example.com", "Main"))
	w.get("workspace_scoped", main).want(t, http.StatusNotFound, policy.CodeNotFound)
	w.must(w.store.JoinWorkspace(ctx, "pro@example.com", "Main"))
	w.get("pro", main).ok(t)
	_, err = w.store.SetPlan(ctx, "Pro", "trial", nil)
	w.must(err)
	w.get("pro", main).want(t, http.StatusForbidden, policy.CodeNoAccess)
	_, err = w.store.SetPlan(ctx, "Pro", "pro", nil)
	w.must(err)
	w.get("pro", main).ok(t)

	elsewhere := w.openStore()
	_, err = elsewhere.RevokeKey(ctx, w.keyIDs["agency"])
	w.must(err)
	w.must(elsewhere.LeaveWorkspace(ctx, "pro@example.com", "Main"))
	w.advance(time.Second + time.Millisecond)
	w.get("agency", main).want(t, http.StatusUnauthorized, policy.CodeRevokedKey)
	w.get("pro", main).want(t, http.StatusNotFound, policy.CodeNotFound)
}

// A new key works at once, even if it was tried before it existed: misses are not cached past a change.
func TestNewKeyWorksAfterEarlierMiss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, hash := policy.NewKey("sara")
	w.keys["later"] = key
	w.get("later", "/v1/me").want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
	_, err := w.openStore().CreateKey(t.Context(), keySpec("pro@example.com", "later", hash, nil), func(string) int { return 10 })
	w.must(err)
	w.advance(time.Second + time.Millisecond)
	w.get("later", "/v1/me").ok(t)
}

// While the store is down, known keys work for five minutes, and expiry still applies.
func TestEveryEndpoint503Store(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expiry := noon().Add(2 * time.Minute)
	w.addKey("short", "pro@example.com", &expiry)
	w.get("short", "/v1/me").ok(t)
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.must(w.store.Close())

	w.run("seen within five minutes", func(t *testing.T) {
		w.advance(time.Minute)
		w.get("short", "/v1/me").ok(t)
		w.get("pro", w.path("main", "/summary")).ok(t)
		w.get("pro", w.path("main", "/movers/queries")).ok(t)
		w.get("pro", w.path("main", "")).ok(t)
	})
	w.run("never seen", func(t *testing.T) {
		w.get("agency", "/v1/me").want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
		w.get("pro", w.path("prefix", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
		for _, path := range []string{"/v1/properties", w.path("main", "/brand-terms"), w.path("main", "/page-groups"), w.path("main", "/annotations")} {
			w.get("pro", path).want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
		}
		answer := w.get("pro", w.path("main", "/queries"), "filters", filtersOf("brand", "is", "brand"))
		if answer.status != http.StatusServiceUnavailable {
			t.Errorf("a brand filter without the store answers %d %s", answer.status, answer.body)
		}
	})
	w.run("expiry is enforced", func(t *testing.T) {
		w.clock.Store(expiry.UnixNano())
		w.get("short", "/v1/me").want(t, http.StatusUnauthorized, policy.CodeExpiredKey)
	})
	w.run("five minutes are the end", func(t *testing.T) {
		w.clock.Store(noon().Add(5 * time.Minute).UnixNano())
		w.get("pro", "/v1/me").ok(t)
		w.advance(time.Millisecond)
		w.get("pro", "/v1/me").want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
		w.get("pro", "/v1/nothing").want(t, http.StatusNotFound, policy.CodeNotFound)
	})
	w.wantNoSecrets()
}

// wantNoSecrets fails the test if the log holds keys or credentials.
func (w *world) wantNoSecrets() {
	w.t.Helper()
	log := w.logged()
	for name, key := range w.keys {
		if strings.Contains(log, key) || strings.Contains(log, key[len("sara_live_"):]) {
			w.t.Errorf("the log holds the key %s", name)
		}
	}
	for _, secret := range []string{"Bearer", "secret-owner", "refresh-owner", "refresh-gone", "ya29."} {
		if i := strings.Index(log, secret); i >= 0 {
			w.t.Errorf("the log holds %q: %s", secret, fmt.Sprint(log[max(0, i-100):i+50]))
		}
	}
}
