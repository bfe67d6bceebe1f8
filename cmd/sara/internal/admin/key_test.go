package admin_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/archive/sqlstore/sqlitetest"
	"sara/cmd/sara/internal/admin"
	"sara/policy"
)

// A flooded is the gate of a replica that unknown keys flood from ever new addresses, and the store of another process.
type flooded struct {
	t     *testing.T
	gate  *policy.Gate
	other *sqlstore.Store
	clock atomic.Int64 // in nanoseconds since 1970: goroutines of the gate read it
	tried int
}

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sara.db")
	sqlitetest.Create(t, file)
	f := &flooded{t: t}
	f.clock.Store(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC).UnixNano())
	now := func() time.Time { return time.Unix(0, f.clock.Load()) }
	f.other = openStore(t, file)
	for _, err := range []error{
		second(f.other.AddAccount(t.Context(), "Acme", "own", nil)),
		second(f.other.AddPerson(t.Context(), "Acme", "ann@acme.example", nil)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.gate = policy.NewGate(policy.Config{Directory: openStore(t, file), Plans: policy.DefaultPlans(), Budget: policy.NewMemoryBudget(now),
		KeyPrefix: "sara", Now: now})
	return f
}

func second[T any](_ T, err error) error { return err }

func openStore(t *testing.T, file string) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// sleep moves the clock.
func (f *flooded) sleep(d time.Duration) { f.clock.Add(int64(d)) }

// flood tries unknown keys, until the gate refuses them without a look-up.
func (f *flooded) flood() {
	f.sleep(time.Second) // the gate knows of all earlier changes then
	for range 200 {
		text, _ := policy.NewKey("sara")
		f.try(text, policy.CodeInvalidKey)
	}
}

// try makes a request with a key from a new address. Its denial must have the code; empty: there must be none.
func (f *flooded) try(key, code string) {
	f.t.Helper()
	f.tried++
	_, err := f.gate.Admit(f.t.Context(), policy.Request{Authorization: "Bearer " + key, Address: fmt.Sprintf("10.0.%d.%d", f.tried/256, f.tried%256)})
	got := ""
	if denial, ok := errors.AsType[*policy.Denial](err); ok {
		got, err = denial.Code, nil
	}
	if got != code || err != nil {
		f.t.Errorf("request %d: %q, %v; want %q", f.tried, got, err, code)
	}
}

// A key works as soon as its maker gets it, even on a replica that refuses unknown keys without a look-up.
func TestNewKeyWorksInAFloodOfUnknownKeys(t *testing.T) {
	f := newFlooded(t)
	create := func(a admin.Admin, name string) (sqlstore.APIKey, string, error) {
		return a.CreateKey(t.Context(), admin.KeyOptions{Prefix: "sara", Plans: policy.DefaultPlans()},
			sqlstore.KeySpec{Person: "ann@acme.example", Name: name})
	}
	old, _, err := create(admin.Admin{Store: f.other, Sleep: f.sleep}, "old")
	if err != nil {
		t.Fatal(err)
	}
	rotate := func(a admin.Admin, _ string) (sqlstore.APIKey, string, error) {
		key, _, text, err := a.RotateKey(t.Context(), "sara", old.ID, time.Hour, 0)
		old = key
		return key, text, err
	}
	for name, made := range map[string]func(admin.Admin, string) (sqlstore.APIKey, string, error){"create": create, "rotate": rotate} {
		f.flood()
		_, text, err := made(admin.Admin{Store: f.other, Sleep: func(time.Duration) {}}, "hasty")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.try(text, policy.CodeInvalidKey) // or the flood would prove nothing
		f.flood()
		_, text, err = made(admin.Admin{Store: f.other, Sleep: f.sleep}, "patient")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.try(text, "")
	}
}
