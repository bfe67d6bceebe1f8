package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

const turn = time.Minute

func (f *fixture) acquire(name, holder string) bool {
	f.t.Helper()
	return value(f.AcquireLease(f.ctx, name, holder, turn))(f.t)
}

func (f *fixture) renew(name, holder string) bool {
	f.t.Helper()
	return value(f.RenewLease(f.ctx, name, holder, turn))(f.t)
}

func testLease(t *testing.T, f *fixture) {
	generation := f.Generation()
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %t, want %t", what, got, want)
		}
	}
	want("renew a free lease", f.renew("collect", "one"), false)
	want("acquire", f.acquire("collect", "one"), true)
	want("acquire another's", f.acquire("collect", "two"), false)
	want("acquire another name", f.acquire("inspect", "two"), true)
	want("acquire one's own", f.acquire("collect", "one"), true)

	f.time = f.time.Add(turn - time.Millisecond)
	want("renew in time", f.renew("collect", "one"), true)
	want("renew another's", f.renew("collect", "two"), false)
	f.time = f.time.Add(turn - time.Millisecond)
	want("acquire before it has run out", f.acquire("collect", "two"), false)
	f.time = f.time.Add(time.Millisecond)
	want("renew what has run out", f.renew("collect", "one"), false)
	want("acquire what has run out", f.acquire("collect", "two"), true)
	want("renew what another took over", f.renew("collect", "one"), false)

	wantNil(t, f.ReleaseLease(f.ctx, "collect", "one"))
	want("acquire after a stranger released it", f.acquire("collect", "one"), false)
	wantNil(t, f.ReleaseLease(f.ctx, "collect", "two"))
	want("acquire what was released", f.acquire("collect", "one"), true)
	equal(t, f.Generation(), generation)

	f.time = f.time.Add(24 * time.Hour)
	want("acquire while the clock is ahead", f.acquire("collect", "two"), true)
	f.time = f.time.Add(-23 * time.Hour)
	want("acquire from a clock that is a little ahead", f.acquire("collect", "one"), false)
	f.time = f.time.Add(-time.Hour)
	want("acquire once the clock is right", f.acquire("collect", "one"), true)

	done, cancel := context.WithCancel(f.ctx)
	cancel()
	if held, err := f.AcquireLease(done, "other", "one", turn); held || !errors.Is(err, context.Canceled) {
		t.Errorf("acquire without time: %t, %v", held, err)
	}
}

func testLeaseRace(t *testing.T, f *fixture) {
	const contenders, rounds = 8, 5
	stores := make([]*Store, contenders)
	for i := range stores {
		stores[i] = f.open(nil)
	}
	for range rounds {
		held := make([]bool, contenders)
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				var err error
				if held[i], err = s.AcquireLease(f.ctx, "collect", fmt.Sprint("contender ", i), turn); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		holders := 0
		for _, h := range held {
			if h {
				holders++
			}
		}
		equal(t, holders, 1)
		f.time = f.time.Add(turn) // so that the next round takes over
	}
}

func testArchiveState(t *testing.T, f *fixture) {
	f.acme()
	site := f.property("google", "sc-domain:example.com")
	never, err := f.ArchiveState(f.ctx, site.ID)
	wantNil(t, err)
	equal(t, never, ArchiveState{PropertyID: site.ID})

	generation := f.Generation()
	first, last := translate.NewDate(2025, 7, 20), translate.NewDate(2026, 11, 19)
	at, until := f.time, f.time.Add(15*time.Minute)
	edition := value(f.Edition(f.ctx))(t)
	for _, state := range []ArchiveState{
		{PropertyID: site.ID, First: &first, Last: &last, CollectedAt: &at},
		{PropertyID: site.ID, First: &last, Last: &last, Gaps: []translate.Date{}, CollectedAt: &at, CooldownUntil: &until,
			Failures: 3, Note: "over quota"},
		{PropertyID: site.ID, First: &first, Last: &last, Gaps: []translate.Date{translate.NewDate(2025, 9, 1), translate.NewDate(2026, 1, 1)}},
		{PropertyID: site.ID},
	} {
		wantNil(t, f.SaveArchiveState(f.ctx, state))
		edition++
		equal(t, value(f.Edition(f.ctx))(t), edition)
		got, err := f.ArchiveState(f.ctx, site.ID)
		wantNil(t, err)
		equal(t, got, state)
	}
	wantNil(t, f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: site.ID, Note: "not\x00 \xff text"}))
	got, err := f.ArchiveState(f.ctx, site.ID)
	wantNil(t, err)
	equal(t, got.Note, "not \uFFFD text")
	equal(t, f.Generation(), generation)
	equal(t, value(f.Edition(f.ctx))(t), edition) // the days are the same
	if err := f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: "unknown"}); !errors.As(err, new(*NotFoundError)) {
		t.Error("the state of a property that does not exist is kept")
	}
}

// If two processes save a state at the same time, the edition advances with every change of the days.
func testArchiveStateRace(t *testing.T, f *fixture) {
	f.acme()
	site := f.property("google", "sc-domain:example.com")
	until := func(last translate.Date) ArchiveState {
		first := translate.NewDate(2025, 7, 20)
		return ArchiveState{PropertyID: site.ID, First: &first, Last: &last}
	}
	day := translate.NewDate(2026, 11, 19)
	wantNil(t, f.SaveArchiveState(f.ctx, until(day)))
	edition := value(f.Edition(f.ctx))(t)
	saved := make(chan error)
	wantNil(t, f.open(nil).transact(f.ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := writeArchiveState(ctx, tx, until(day+1))
		go func() { saved <- f.SaveArchiveState(f.ctx, until(day)) }()
		f.waitForBlocked(t)
		return errors.Join(err, nextEdition(ctx, tx))
	}))
	wantNil(t, <-saved)
	equal(t, value(f.ArchiveState(f.ctx, site.ID))(t), until(day))
	equal(t, value(f.Edition(f.ctx))(t), edition+2)
}

// A removal locks the property before its state, so a change of the state must not wait for the property.
func testArchiveStateWhileRemoving(t *testing.T, f *fixture) {
	if f.dialect != postgresDialect {
		return // has one writer at a time
	}
	f.acme()
	site, day := f.property("google", "sc-domain:example.com"), translate.NewDate(2026, 11, 19)
	wantNil(t, f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: site.ID}))
	removal := &Removal{Properties: []string{site.ID}}
	wantNil(t, f.open(nil).transact(f.ctx, func(ctx context.Context, tx *sql.Tx) error {
		wantNil(t, removal.holdOff(ctx, tx, f.dialect))
		return f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: site.ID, First: &day, Last: &day})
	}))
}

// waitForBlocked waits until a query waits for a lock. On SQLite, a change waits before its first query.
func (f *fixture) waitForBlocked(t *testing.T) {
	t.Helper()
	if f.dialect != postgresDialect {
		return
	}
	for value(one(f.ctx, f.pools.check, scalar[int], "SELECT count(*) FROM pg_stat_activity"+
		" WHERE datname = current_database() AND wait_event_type = 'Lock'"))(t) == 0 {
		continue
	}
}

func testRecordArchiveChange(t *testing.T, f *fixture) {
	f.acme()
	site := f.property("google", "sc-domain:a.example")
	day := translate.NewDate(2026, 11, 19)
	edition, state := value(f.Edition(f.ctx))(t), ArchiveState{PropertyID: site.ID, First: &day, Last: &day, Failures: 3, Note: "over quota"}
	wantNil(t, f.RecordArchiveChange(f.ctx, state, "archive.import", map[string]any{"replace": true}))
	equal(t, value(f.ArchiveState(f.ctx, site.ID))(t), state)
	equal(t, value(f.Edition(f.ctx))(t), edition+1)
	e := value(f.AuditLog(f.ctx, AuditFilter{Account: "acme", Limit: 1}))(t)[0]
	equal(t, []string{e.Action, e.Subject, string(e.Details)},
		[]string{"archive.import", site.ID, `{"connection":"` + site.Connection.ID + `","replace":true,"site":"sc-domain:a.example"}`})
	recorded := f.audited(AuditFilter{})
	if err := f.RecordArchiveChange(f.ctx, ArchiveState{PropertyID: "unknown"}, "archive.import", nil); !errors.As(err, new(*NotFoundError)) {
		t.Error("the state of a property that does not exist is kept")
	}
	equal(t, f.audited(AuditFilter{}), recorded)
}

func testArchivableProperties(t *testing.T, f *fixture) {
	equal(t, value(f.ArchivableProperties(f.ctx))(t), []ArchivableProperty{})
	equal(t, value(f.NewestArchivedDay(f.ctx))(t), (*translate.Date)(nil))
	_, google := f.acme()
	f.account("bold", "agency")
	f.workspace("bold", "clients")
	f.connection("clients", "other")
	b := f.property("google", "sc-domain:b.example")
	a := f.property("other", "sc-domain:a.example")
	c := value(f.SetArchived(f.ctx, f.property("google", "https://c.example/").ID, true))(t)

	last := translate.NewDate(2026, 11, 19)
	state := ArchiveState{PropertyID: b.ID, First: &last, Last: &last, Gaps: []translate.Date{}, Failures: 2, Note: "no access"}
	wantNil(t, f.SaveArchiveState(f.ctx, state))
	wantNil(t, f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: c.ID}))
	equal(t, value(f.NewestArchivedDay(f.ctx))(t), &last)
	value(f.SetConnectionHealth(f.ctx, google.ID, google.Revision, "revoked"))(t)
	value(f.SetPropertyAccess(f.ctx, a.ID, "no access"))(t)
	a.AccessNote, b.History = "no access", &policy.DayRange{First: int32(last), Last: int32(last)}
	for _, p := range []*Property{&b, &c} {
		p.Connection.Healthy, p.Connection.Note = false, "revoked"
	}
	want := []ArchivableProperty{
		{Property: a, Plan: "agency", State: ArchiveState{PropertyID: a.ID}},
		{Property: b, Plan: "pro", State: state},
		{Property: c, Plan: "pro", State: ArchiveState{PropertyID: c.ID}},
	}
	equal(t, value(f.ArchivableProperties(f.ctx))(t), want)
	for _, p := range want {
		got, exists, err := f.ArchivableProperty(f.ctx, p.ID)
		wantNil(t, err)
		equal(t, got, p)
		equal(t, exists, true)
	}
	_, exists, err := f.ArchivableProperty(f.ctx, "removed")
	wantNil(t, err)
	equal(t, exists, false)
}
