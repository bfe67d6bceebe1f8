package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy"
)

func TestDatabaseFileContainsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "sara.db")
	f := newFixture(t, "sqlite:"+path)
	p, _ := f.acme()
	spec := keySpec(p.Email, "sara_live_secrettext")
	spec.Name = "laptop"
	value(f.CreateKey(f.ctx, spec, unlimited))(t)
	value(f.AddConnection(f.ctx, "main", "user", authorizedUserJSON))(t)

	files := value(filepath.Glob(path + "*"))(t)
	var stored []byte
	for _, file := range files {
		stored = append(stored, value(os.ReadFile(file))(t)...)
		if mode := value(os.Stat(file))(t).Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o", file, mode)
		}
	}
	if mode := value(os.Stat(filepath.Dir(path)))(t).Mode().Perm(); mode != 0o700 {
		t.Errorf("the folder has mode %o", mode)
	}
	if !bytes.Contains(stored, []byte("ann@acme.example")) {
		t.Fatal("the files do not hold what was written")
	}
	for _, secret := range []string{"PRIVATE", "private_key", "hush", "1//refresh", "secrettext", string(testKey)} {
		if bytes.Contains(stored, []byte(secret)) {
			t.Errorf("the files hold %q in clear", secret)
		}
	}
}

func TestDatabaseInMemoryIsPrivateToTheStore(t *testing.T) {
	const url = "sqlite::memory:"
	f := newFixture(t, url)
	p, _ := f.acme()
	site := f.property("google", "sc-domain:example.com")
	equal(t, value(f.FindProperties(f.ctx, p.ID, "", "example.com"))(t), []policy.Property{site.Property})
	equal(t, value(newFixture(t, url).Accounts(f.ctx))(t), []Account{})
}

func TestOpenErrorsNameTheProblemAndNoPassword(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no database is reachable anyway
	for _, url := range []string{
		"", "hunter2", "mysql://sara:hunter2@db/sara", "sqlite:", "postgres://sara:hunter2@%zz/", "postgres://sara:hun/hunter2@db/sara",
		"postgres://sara:hunter2@db:port/sara", "postgres://sara:hunter2@127.0.0.1:1/sara?sslmode=hunter2",
	} {
		_, err := Open(ctx, Config{URL: url})
		if refused[*InputError](t, err); strings.Contains(err.Error(), "hun") {
			t.Errorf("%q repeats a password", err)
		}
	}
	_, err := Open(context.Background(), Config{URL: "postgres://sara:hunter2@127.0.0.1:1/sara?connect_timeout=1"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an unreachable database: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	wantNil(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(context.Background(), Config{URL: "sqlite:" + filepath.Join(file, "sara.db")})
	if path := (*os.PathError)(nil); !errors.As(err, &path) {
		t.Errorf("a folder that is a file: %v", err)
	}
}

func TestMigrateFailsOnABrokenDatabase(t *testing.T) {
	s := value(Open(context.Background(), Config{URL: "sqlite::memory:"}))(t)
	if _, err := s.pools.jobs.Exec("CREATE TABLE accounts (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	if applied, err := s.Migrate(context.Background()); err == nil || applied != 0 {
		t.Errorf("a foreign table in the way: %d steps, %v", applied, err)
	}
	wantNil(t, s.Close())
}

func TestServingQueriesUseIndexes(t *testing.T) {
	f := newFixture(t, "sqlite::memory:")
	condition, hashes := f.dialect.isOneOf([]policy.Hash{{1}})
	for name, query := range map[string]struct {
		text string
		args []any
	}{
		"FindKeys":            {selectKeysByHash + condition, []any{hashes}},
		"FindProperties":      {findReachable, []any{named{"lower": "a", "written": "a", "person": "a", "workspace": "a"}}},
		"count of a page":     {countReachable, []any{Reach{"a", "a", false}.values()}},
		"ReachableProperties": {pageReachable, []any{named{"person": "a", "workspace": "a", "archived": false, "limit": 1, "offset": 1}}},
		"BrandTerms":          {selectBrandTerms, []any{"a"}},
		"PageGroups":          {selectPageGroups, []any{"a"}},
		"Annotations":         {selectAnnotations, []any{"a", 0, 1}},
		"Credentials":         {selectCredentials, []any{"a"}},
		"ArchiveState":        {selectArchiveState, []any{"a"}},
	} {
		type step struct {
			id, parent, unused int
			detail             string
		}
		scan := func(row scanner, s *step) error { return row.Scan(&s.id, &s.parent, &s.unused, &s.detail) }
		plan := value(all(f.ctx, f.changes, scan, "EXPLAIN QUERY PLAN "+query.text, query.args...))(t)
		searches := 0
		for _, s := range plan {
			if strings.HasPrefix(s.detail, "SEARCH ") {
				searches++
			}
			// Scanning the result of a subquery, or the arguments, is fine.
			if strings.HasPrefix(s.detail, "SCAN ") && s.detail != "SCAN found" && s.detail != "SCAN page" &&
				!strings.HasPrefix(s.detail, "SCAN json_each ") {
				t.Errorf("%s reads a whole table: %s", name, s.detail)
			}
		}
		if name == "FindProperties" {
			// Not by the workspaces of the person, which may have thousands of properties.
			for _, index := range []string{"(id=?)", "(host=?)", "(site=?)", "(slug=?)"} {
				if !slices.ContainsFunc(plan, func(s step) bool {
					return strings.HasPrefix(s.detail, "SEARCH p ") && strings.HasSuffix(s.detail, index)
				}) {
					t.Errorf("%s does not search properties by %s: %+v", name, index, plan)
				}
			}
		}
		if searches == 0 {
			t.Errorf("%s searches nothing: %+v", name, plan)
		}
	}
}

func TestKeyHashesReadAnIndexOnly(t *testing.T) {
	f := newFixture(t, "sqlite::memory:")
	plan := value(all(f.ctx, f.changes, func(row scanner, detail *string) error {
		var id, parent, unused int
		return row.Scan(&id, &parent, &unused, detail)
	}, "EXPLAIN QUERY PLAN "+selectKeyHashes, 1))(t)
	if len(plan) != 1 || !strings.Contains(plan[0], "USING COVERING INDEX") {
		t.Errorf("the plan is %q", plan)
	}
}

func TestConcurrentProcessesCreateOneDatabase(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "data", "sara.db")
	const racers = 6
	results := make(chan error, racers)
	for range racers {
		go func() {
			s, err := Open(context.Background(), Config{URL: url})
			if err == nil {
				_, err = s.Migrate(context.Background())
				err = errors.Join(err, s.Close())
			}
			results <- err
		}()
	}
	for range racers {
		wantNil(t, <-results)
	}
}

// The look-ups of every request are parsed once: SQLite would take longer to parse them than to run them.
func TestLookupsAreParsedOnce(t *testing.T) {
	f := newFixture(t, "sqlite:"+filepath.Join(t.TempDir(), "sara.db"))
	p, _ := f.acme()
	key, hash := f.key(p.Email, "text"), keySpec("", "text").Hash
	f.property("google", "sc-domain:example.com")
	lookUp := func() (prepared map[any]any) {
		equal(t, value(f.findKey(hash))(t).ID, key.ID)
		equal(t, len(value(f.FindProperties(f.ctx, p.ID, "", "example.com"))(t)), 1)
		value(f.Edition(f.ctx))(t)
		prepared = map[any]any{}
		f.keys.prepared.Range(func(query, statement any) bool {
			prepared[query] = statement
			return true
		})
		return prepared
	}
	first := lookUp()
	equal(t, len(first), 3)
	if again := lookUp(); !maps.Equal(again, first) {
		t.Errorf("the statements %v, and then %v", first, again)
	}
}

// A look-up that ends with its context leaves no statement open: otherwise the connection would keep seeing the old snapshot.
func TestCanceledLookupsLeaveNoSnapshot(t *testing.T) {
	f := newFixture(t, "sqlite:"+filepath.Join(t.TempDir(), "sara.db"))
	p, _ := f.acme()
	f.property("google", "sc-domain:example.com")
	f.key(p.Email, "text")
	hashes := []policy.Hash{keySpec("", "text").Hash}
	var callers sync.WaitGroup
	for n := range waitingCallers {
		callers.Go(func() {
			for i := range 30 {
				ctx, cancel := context.WithCancel(f.ctx)
				time.AfterFunc(time.Duration(n*i)*time.Microsecond, cancel)
				_, _ = f.FindKeys(ctx, hashes)
				_, _ = f.FindProperties(ctx, p.ID, "", "example.com")
				_, _ = f.Edition(ctx)
				cancel()
			}
		})
	}
	callers.Wait()
	before := value(f.Edition(f.ctx))(t)
	f.key(p.Email, "later")
	for range waitingCallers { // every connection, sooner or later
		callers.Go(func() {
			if after, err := f.Edition(f.ctx); err != nil || after != before+1 {
				t.Errorf("the edition is %d after %d and a change (%v)", after, before, err)
			}
		})
	}
	callers.Wait()
}
