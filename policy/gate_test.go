package policy

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"
)

const (
	noKeyMessage     = "the request has no key: send the header Authorization: Bearer <API_KEY>"
	formMessage      = "the Authorization header is not of the form Authorization: Bearer <API_KEY>"
	prefixMessage    = "this is not a key of this service; its keys begin with sara_live_"
	wholeMessage     = "the key is incomplete or altered: copy it again"
	unknownMessage   = "the key is unknown: check that you copied all of it"
	revokedMessage   = "the key was revoked: create another one"
	noAccessMessage  = "the account's plan has no access to the API: a paid plan is required"
	planEndedMessage = "the account's plan ended: renew it to use the API"
)

// wantDenial checks code and message of a denial.
func wantDenial(t *testing.T, err error, code, message string) {
	t.Helper()
	var denial *Denial
	if !errors.As(err, &denial) || denial.Code != code || denial.Message != message || err.Error() != message {
		t.Errorf("got %#v\nwant %s: %s", err, code, message)
	}
}

// A request that fails every check gets the denial of the first; each repair reveals the next.
func TestAdmitChecksInOrder(t *testing.T) {
	w := newFixture(t)
	now := w.clock.now()
	w.edit(func(k *Key) {
		*k = Key{ID: "k1", From: StoredAddresses("192.0.2.0/24"), RevokedAt: now, ExpiresAt: now, PlanName: "gone", PlanEnd: now, Scopes: ConfigRead}
	})
	header, unlimited := "", time.Time{}
	for _, step := range []struct {
		repair        func(k *Key)
		header        string
		code, message string
		grant         bool
	}{
		{nil, "", CodeInvalidKey, noKeyMessage, false},
		{nil, "Basic " + validKeyText, CodeInvalidKey, formMessage, false},
		{nil, "Bearer other_live_GOOD", CodeInvalidKey, prefixMessage, false},
		{nil, "Bearer " + unknownKeyText, CodeInvalidKey, unknownMessage, false},
		{nil, "Bearer " + validKeyText, CodeRevokedKey, revokedMessage, false},
		{func(k *Key) { k.RevokedAt = now.Add(time.Nanosecond) }, "", CodeExpiredKey, "the key expired on 2026-03-01T12:00:00Z: create another one", false},
		{func(k *Key) { k.ExpiresAt = unlimited }, "", CodeAddress,
			"the key cannot be used from the address 7: ask its administrator to allow the address", true},
		{func(k *Key) { k.From = nil }, "", CodeNoAccess, noAccessMessage, true},
		{func(k *Key) { k.PlanName = "trial" }, "", CodeNoAccess, noAccessMessage, true},
		{func(k *Key) { k.PlanName = "none" }, "", CodeNoAccess, noAccessMessage, true},
		{func(k *Key) { k.PlanName = "pro" }, "", CodeNoAccess, planEndedMessage, true},
		{func(k *Key) { k.PlanEnd = unlimited }, "", CodeScope, "the key lacks the scope indexing:read", true},
	} {
		if step.header != "" {
			header = step.header
		}
		if step.repair != nil {
			w.directory.changeHere(func() { w.directory.edit(step.repair) })
		}
		grant, err := w.request(t.Context(), header, IndexingRead)
		wantDenial(t, err, step.code, step.message)
		if (grant != nil) != step.grant || grant != nil && grant.Key.ID != "k1" {
			t.Errorf("%s: grant %+v, want a grant: %t", step.message, grant, step.grant)
		}
	}
	w.directory.changeHere(func() { w.directory.edit(func(k *Key) { k.Scopes |= IndexingRead }) })
	if grant, err := w.request(t.Context(), header, IndexingRead); err != nil || grant.Plan != DefaultPlans()["pro"] {
		t.Errorf("after all repairs: %+v, %v", grant, err)
	}
}

func TestAuthorizationHeaderForms(t *testing.T) {
	w := newFixture(t)
	for _, header := range []string{"Bearer " + validKeyText, "bearer " + validKeyText, "BEARER " + validKeyText, "Bearer   " + validKeyText,
		"Bearer " + validKeyText + " "} {
		if grant, err := w.request(t.Context(), header, AllScopes); err != nil || grant.Key.ID != "k1" {
			t.Errorf("%q: %+v, %v", header, grant, err)
		}
	}
	asked := w.directory.calls()
	f := func(header, message string) {
		t.Helper()
		grant, err := w.request(t.Context(), header, 0)
		wantDenial(t, err, CodeInvalidKey, message)
		if grant != nil {
			t.Errorf("%.60q: both a grant and a denial", header)
		}
	}
	f("", noKeyMessage)
	f(validKeyText, formMessage)
	f("Bearer"+validKeyText, formMessage)
	f("Bearer\t"+validKeyText, formMessage)
	f(" Bearer "+validKeyText, formMessage)
	f("Token "+validKeyText, formMessage)
	f("Bearer", prefixMessage)
	f("Bearer ", prefixMessage)
	f("Bearer Bearer "+validKeyText, prefixMessage)
	f("Bearer GOOD", prefixMessage)
	f("Bearer sara_test_GOOD", prefixMessage)
	f("Bearer SARA_live_GOOD", prefixMessage)
	f("Bearer xsara_live_GOOD", prefixMessage)
	f("Bearer sara_liv", prefixMessage)
	f("Bearer sara_live_", wholeMessage)
	f("Bearer sara_live_GOOD", wholeMessage)
	f("Bearer "+validKeyText[:len(validKeyText)-1], wholeMessage)
	f("Bearer "+validKeyText+"A", wholeMessage)
	f("Bearer "+validKeyText+strings.Repeat("A", 4000), wholeMessage)
	f("Bearer sara_live_"+strings.Repeat("good", 13), wholeMessage)
	f("Bearer sara_live_"+strings.Repeat("G00D", 13), wholeMessage)
	f("Bearer sara_live_"+strings.Repeat("G\x00OD", 13), wholeMessage)
	f("Bearer "+validKeyText+" "+validKeyText, wholeMessage)
	f("Bearer "+validKeyText+strings.Repeat("A", checksumLength), wholeMessage)
	wantCalls(t, w.directory, asked)

	f("Bearer "+unknownKeyText, unknownMessage)
	sum := keyChecksum(unknownKeyText)
	f("Bearer "+unknownKeyText+string(sum[:]), unknownMessage)
}

// Expiry is compared with the clock, not cached: it holds to the nanosecond for a key that is looked up once.
func TestExpiryAndPlanEndHoldToTheNanosecond(t *testing.T) {
	f := func(name string, limit func(k *Key, at time.Time), code, message string) {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.edit(func(k *Key) { limit(k, w.clock.now().Add(time.Millisecond)) })
			wantCode(t, "", nil)(w.admit(t.Context()))
			w.clock.advance(time.Millisecond - 1)
			wantCode(t, "", nil)(w.admit(t.Context()))
			w.clock.advance(1)
			_, err := w.request(t.Context(), "Bearer "+validKeyText, 0)
			wantDenial(t, err, code, message)
			wantCalls(t, w.directory, 1)
		})
	}
	f("expiry", func(k *Key, at time.Time) { k.ExpiresAt = at }, CodeExpiredKey, "the key expired on 2026-03-01T12:00:00Z: create another one")
	f("expiry in a zone", func(k *Key, at time.Time) { k.ExpiresAt = at.In(time.FixedZone("east", 3600)) },
		CodeExpiredKey, "the key expired on 2026-03-01T12:00:00Z: create another one")
	f("plan end", func(k *Key, at time.Time) { k.PlanEnd = at }, CodeNoAccess, planEndedMessage)
}

func TestScopesHeldAgainstScopesRequired(t *testing.T) {
	w := newFixture(t)
	for held := Scopes(0); held <= AllScopes; held++ {
		w.directory.changeHere(func() { w.directory.edit(func(k *Key) { k.Scopes = held }) })
		for required := Scopes(0); required <= AllScopes; required++ {
			grant, err := w.request(t.Context(), "Bearer "+validKeyText, required)
			if grant == nil || grant.Key.Scopes != held {
				t.Fatalf("held %v, required %v: grant %+v", held.Names(), required.Names(), grant)
			}
			var lacks []string
			for _, scope := range required.Names() {
				if !strings.Contains(strings.Join(held.Names(), " "), scope) {
					lacks = append(lacks, scope)
				}
			}
			if len(lacks) > 0 {
				wantDenial(t, err, CodeScope, "the key lacks the scope "+strings.Join(lacks, ", "))
			} else if err != nil {
				t.Errorf("held %v, required %v: %v", held.Names(), required.Names(), err)
			}
		}
	}
}

func TestWorkspaceKeyReachesOnlyItsWorkspace(t *testing.T) {
	w := newFixture(t)
	w.edit(func(k *Key) { k.Workspace = &Workspace{ID: "w1", Name: "One"} })
	w.directory.changeElsewhere(func() {
		w.directory.properties[propertyQuery{"p1", "w1", "blog"}] = []Property{{ID: "blog", Slug: "blog"}}
	})
	grant, err := w.request(t.Context(), "Bearer "+validKeyText, PropertiesRead)
	if err != nil || grant.WorkspaceID() != "w1" {
		t.Fatalf("%+v, %v", grant, err)
	}
	if p, err := w.Property(t.Context(), grant, "blog"); err != nil || p.ID != "blog" {
		t.Errorf("in the workspace: %+v, %v", p, err)
	}
	_, err = w.Property(t.Context(), grant, "shop")
	wantDenial(t, err, CodeNotFound, `there is no property "shop" that this key can reach`)
}

func TestRefundOfAPastDayIsDropped(t *testing.T) {
	w := newFixture(t)
	w.config.Budget = NewMemoryBudget(w.clock.now)
	want := func(calls int) {
		t.Helper()
		if got := w.config.Budget.Usage("a1").CallsToday; got != calls {
			t.Errorf("%d calls charged, want %d", got, calls)
		}
	}
	grant, err := w.request(t.Context(), "Bearer "+validKeyText, 0)
	if err != nil {
		t.Fatal(err)
	}
	charge := func() {
		t.Helper()
		if err := w.ChargeLiveCalls(grant, "shop", 2); err != nil {
			t.Fatal(err)
		}
	}
	charge()
	w.RefundLiveCalls(grant, 1)
	want(1)
	w.clock.advance(12 * time.Hour)
	charge()
	w.RefundLiveCalls(grant, 1)
	want(2)
}

// The server reuses the header's buffer for the next request.
func TestAdmitRetainsNothingOfTheHeader(t *testing.T) {
	w := newFixture(t)
	raw := make([]byte, len("Bearer "+validKeyText))
	admit := func(header string) error {
		n := copy(raw, header)
		_, err := w.request(t.Context(), unsafe.String(&raw[0], n), 0)
		clear(raw)
		return err
	}
	for range 2 {
		if err := admit("Bearer " + validKeyText); err != nil {
			t.Error(err)
		}
		wantDenial(t, admit("Bearer "+unknownKeyText), CodeInvalidKey, unknownMessage)
		wantDenial(t, admit("Bearer other_live_K"), CodeInvalidKey, prefixMessage)
	}
	wantCalls(t, w.directory, 2)
}

func TestStillValidUntilTheDirectoryChangesOrTheAnswerExpires(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *fixture)
		valid  bool
	}{
		"no change":                            {func(*fixture) {}, true},
		"the time of an edition":               {func(w *fixture) { w.clock.advance(editionTTL) }, true},
		"more than a second, edition not read": {func(w *fixture) { w.clock.advance(editionTTL + 1) }, false},
		"more than a second, edition read":     {func(w *fixture) { w.clock.advance(answerTTL); wantCode(t, "", nil)(w.admit(t.Context())) }, true},
		"more than half a minute":              {func(w *fixture) { w.clock.advance(answerTTL + 1); wantCode(t, "", nil)(w.admit(t.Context())) }, false},
		"clock set back":                       {func(w *fixture) { w.clock.advance(-1) }, false},
		"a change by this process":             {func(w *fixture) { w.directory.changeHere(func() {}) }, false},
		"an invalidation":                      {func(w *fixture) { w.Invalidate() }, false},
		"a change by another process, edition read": {func(w *fixture) {
			w.directory.changeElsewhere(func() {})
			w.clock.advance(editionTTL + 1)
			wantCode(t, "", nil)(w.admit(t.Context()))
		}, false},
	} {
		w := newFixture(t)
		grant, err := w.request(t.Context(), "Bearer "+validKeyText, 0)
		if err != nil {
			t.Fatal(err)
		}
		test.change(w)
		if w.StillValid(grant, w.clock.now()) != test.valid {
			t.Errorf("%s: valid %t, want %t", name, !test.valid, test.valid)
		}
	}
}

// A key is recognized without the directory, as long as what the gate knows of it may be used.
func TestRecognizesKnownKeys(t *testing.T) {
	w := newFixture(t)
	w.edit(func(k *Key) { k.From, k.ExpiresAt = StoredAddresses("192.0.2.0/24"), w.clock.now().Add(2*time.Minute) })
	r := Request{Authorization: "Bearer " + validKeyText, Address: "192.0.2.7"}
	want := func(what string, r Request, want bool) {
		t.Helper()
		if got := w.Recognizes(r); got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
	admit := func() { _, _ = w.Admit(t.Context(), r) } // fills the cache; the decision does not matter
	want("before its first request", r, false)
	admit()
	want("after it", r, true)
	want("from another address", Request{Authorization: r.Authorization, Address: "192.0.3.7"}, false)
	want("another key", Request{Authorization: "Bearer " + unknownKeyText, Address: r.Address}, false)
	want("no key", Request{Address: r.Address}, false)
	w.clock.set(w.clock.now().Add(2 * time.Minute))
	want("after its expiry", r, false)
	w.edit(func(k *Key) { k.ExpiresAt = time.Time{} })
	w.Invalidate()
	want("after a change", r, false)
	admit()
	want("after the next request", r, true)
	w.clock.set(w.clock.now().Add(staleTTL + time.Nanosecond))
	want("long after it", r, false)
	w.edit(func(k *Key) { k.RevokedAt = w.clock.now() })
	admit()
	want("revoked", r, false)
}

// A memoized grant lets no other address in.
func TestReadmitChecksTheAddress(t *testing.T) {
	w := newFixture(t)
	w.edit(func(k *Key) { k.From = StoredAddresses("192.0.2.0/24 2001:db8::/32") })
	grant, err := w.Admit(t.Context(), Request{Authorization: "Bearer " + validKeyText, Address: "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	for address, code := range map[string]string{"192.0.2.8": "", "::ffff:192.0.2.9": "", "2001:db8::1": "", "192.0.3.7": CodeAddress, "": CodeAddress} {
		_, err := w.Readmit(grant, w.clock.now(), Request{Address: address})
		wantCode(t, code, nil)(codeOf(err))
		if found := w.Peek(t.Context(), Request{Authorization: "Bearer " + validKeyText, Address: address}) != nil; found != (code == "") {
			t.Errorf("the allowance is shown to %q: %t", address, found)
		}
	}
}

// Readmit checks clock and scopes, and charges, like Admit.
func TestReadmitRepeatsTheChecks(t *testing.T) {
	w := newFixture(t)
	end := w.clock.now().Add(10 * time.Second)
	w.edit(func(k *Key) { k.ExpiresAt, k.PlanEnd, k.Scopes = end.Add(time.Second), end, PerformanceRead })
	grant, err := w.request(t.Context(), "Bearer "+validKeyText, 0)
	if err != nil {
		t.Fatal(err)
	}
	readmit := func(required Scopes) (string, error) {
		_, err := w.Readmit(grant, w.clock.now(), Request{RequiredScopes: required})
		return codeOf(err)
	}
	wantCode(t, "", nil)(readmit(PerformanceRead))
	wantCode(t, CodeScope, nil)(readmit(ConfigRead))
	w.clock.set(end)
	wantCode(t, CodeNoAccess, nil)(readmit(PerformanceRead))
	w.clock.set(end.Add(time.Second))
	wantCode(t, CodeExpiredKey, nil)(readmit(PerformanceRead))
}
