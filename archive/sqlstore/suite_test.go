package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"sara/archive/sqlstore/pgtest"
	"sara/policy"
	"sara/policy/keyring"
)

// TestStore runs one suite over both databases.
func TestStore(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		suite(t, sqliteTemplate(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		migrate := func(url string) { wantNil(t, newFixture(t, url).Close()) }
		suite(t, pgtest.Start(t).Template(t, migrate))
	})
}

// sqliteTemplate returns a function that returns copies of one migrated database: migrating takes longer than most tests.
func sqliteTemplate(t *testing.T) (newDatabase func(testing.TB) string) {
	t.Helper()
	const name = "sara #1?.db"
	first := filepath.Join(t.TempDir(), "created on open", name)
	wantNil(t, newFixture(t, "sqlite:"+first).Close()) // the last handle: everything is in the file
	migrated := value(os.ReadFile(first))(t)
	return func(t testing.TB) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, migrated, 0o600); err != nil {
			t.Fatal(err)
		}
		return "sqlite:" + file
	}
}

func suite(t *testing.T, newDatabase func(testing.TB) string) {
	for _, test := range []struct {
		guarantee string
		check     func(*testing.T, *fixture)
	}{
		{"accounts keep plan and end", testAccounts},
		{"names that cannot be references are refused", testNames},
		{"workspaces are unique in their account", testWorkspaces},
		{"people have one account and any workspaces", testPeople},
		{"ambiguous references are refused with candidates", testAmbiguousReferences},
		{"connections keep credentials sealed", testConnections},
		{"incomplete credentials are refused without repeating them", testIncompleteCredentials},
		{"replaced credentials get a new revision and are healthy", testReplaceCredentials},
		{"credentials require the right secret key", testSecretKeys},
		{"credentials are sealed with the current key, by resealing too", testReseal},
		{"resealing is resumed, and overwrites nothing", testResealInterrupted},
		{"one caller sees a transition of health", testConnectionHealth},
		{"one caller sees a transition of access", testPropertyAccess},
		{"properties get sites, names and slugs", testAddProperty},
		{"taken sites and slugs are refused", testTakenProperty},
		{"properties are found by id, site, slug and host", testFindProperty},
		{"flags of properties change", testPropertyFlags},
		{"people reach the properties of their workspaces, sorted by bytes", testReachable},
		{"references match only what the person can reach", testFindReachable},
		{"shared properties are reached once, through any of their workspaces", testShares},
		{"a moved property keeps everything but its connection", testMoveProperty},
		{"a property that moves from a removed connection stays", testMoveWhileRemoving},
		{"admission gets keys with plan and scopes", testKeyForAdmission},
		{"keys stay under the limit of the plan", testKeyLimit},
		{"concurrent creations admit exactly the limit", testKeyLimitRace},
		{"keys are checked, listed and revoked", testKeys},
		{"keys are rotated with an overlap", testRotateKey},
		{"concurrent rotations leave one successor", testRotateKeyRace},
		{"keys are restricted to addresses", testRestrictKey},
		{"all keys of a person are revoked", testRevokeKeys},
		{"revoking ends what a concurrent rotation makes", testRevokeWhileRotating},
		{"the last use of keys is recorded", testKeyUses},
		{"brand terms keep identity and order", testBrandTerms},
		{"page groups keep identity and order", testPageGroups},
		{"of lists that are set at once one remains", testSetListsAtOnce},
		{"annotations are listed by date", testAnnotations},
		{"generation and edition advance only with committed writes", testGeneration},
		{"every administrative change is recorded", testAuditActions},
		{"entries of the audit log name what changed, and how", testAuditDetails},
		{"the audit log is read in pages", testAuditPages},
		{"the audit log is append-only", testAuditAppendOnly},
		{"the audit log keeps entries for their retention", testAuditRetention},
		{"old entries of the audit log are found by an index", testAuditRetentionPlan},
		{"old entries of the audit log are removed by concurrent changes", testAuditRetentionRace},
		{"a change touches only what it is about", testSubjects},
		{"a removed property takes its data along", testRemoveProperty},
		{"a property is removed while it is inspected", testRemoveWhileInspecting},
		{"nothing is removed that gets the name meanwhile", testRemoveRenamed},
		{"what is removed during a change is not found", testChangeWhileRemoving},
		{"a removed connection takes its properties along", testRemoveConnection},
		{"a removed person takes the keys along", testRemovePerson},
		{"a removed workspace takes everything below along", testRemoveWorkspace},
		{"a removed account leaves nothing but its audit log", testRemoveAccount},
		{"an account is removed while its keys change", testRemoveWhileKeysChange},
		{"a removal takes connections in their order", testRemovalOrdersConnections},
		{"keys end while their use is recorded", testKeysEndWhileTheirUseIsRecorded},
		{"a connection is removed while its credentials change", testRemoveWhileCredentialsChange},
		{"usage is replaced by account and read by day", testUsage},
		{"what replicas admitted is replaced, and deleted unless it grew", testReplicaUsage},
		{"a lease has one holder until it expires", testLease},
		{"one of concurrent contenders holds the lease", testLeaseRace},
		{"the state of an archive is replaced completely", testArchiveState},
		{"the edition advances with each of concurrent changes of archived days", testArchiveStateRace},
		{"the state of an archive changes while its property is removed", testArchiveStateWhileRemoving},
		{"a change of an archive is in the audit log", testRecordArchiveChange},
		{"all properties are listed with plan and archive", testArchivableProperties},
		{"overviews count as a walk over all properties", testOverviews},
		{"accounts and sites are read in pages", testPages},
		{"the last look at the status is replaced", testStatusLook},
		{"the index state exists from the first run on", testIndexState},
		{"a discovery replaces URLs and sitemaps and keeps inspections", testDiscovery},
		{"a discovery with a bad URL changes nothing", testDiscoveryRefusals},
		{"the longest URLs can be found", testLongURLs},
		{"labels are found in any spelling", testOddLabels},
		{"inspections appear when they are published", testStaging},
		{"the summary counts by label, sitemap and day", testIndexSummary},
		{"old days of the summary are deleted", testIndexDaysAreBounded},
		{"pages equal a naive search", testIndexedURLs},
		{"pages are stable until inspections are published", testStablePages},
		{"reads are consistent while inspections are published", testPublishingReaders},
		{"staging during a publication loses nothing", testStagingRace},
		{"pages are read from the covering index of their order", testPlansOfPages},
		{"queries of a property do not scan others", testPlansOfReadings},
		{"inspections are granted up to the daily limit", testTakeInspection},
		{"concurrent processes are granted exactly the limit", testTakeInspectionRace},
		{"invalid orders are refused, and a canceled page ends", testIndexedURLsRefusals},
		{"a restart loses nothing", testRestart},
		{"a dump restores into either database", testBackup},
		{"a load that cannot drop the tables drops none", testLoadThatCannotDrop},
		{"concurrent migrations all succeed", testMigrateRace},
		{"a database of the previous schema opens", testPreviousSchema},
		{"what an old version wrote is served after the migration", testOldRows},
		{"old inspections count together with new ones", testOldInspections},
		{"the version before writes and reads while an update rolls out", testRollingUpdate},
		{"the version before saves and reads what replicas admitted", testRollingReplicaUsage},
		{"the schema of a newer program is not changed", testNewerSchema},
	} {
		t.Run(test.guarantee, func(t *testing.T) {
			t.Parallel()
			test.check(t, newFixture(t, newDatabase(t)))
		})
	}
}

// fixture is a migrated store with a manual clock.
type fixture struct {
	*Store
	t    testing.TB
	ctx  context.Context
	url  string
	time time.Time
}

var testKey, otherKey = []byte("0123456789abcdef0123456789abcdef"), []byte("fedcba9876543210fedcba9876543210")

func newRing(t testing.TB, current []byte, previous ...[]byte) *keyring.Keyring {
	t.Helper()
	return value(keyring.New(current, previous...))(t)
}

func newFixture(t testing.TB, url string) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: context.Background(), url: url, time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	f.Store = f.open(newRing(t, testKey))
	if _, err := f.Migrate(f.ctx); err != nil {
		t.Fatal(err)
	}
	return f
}

// open opens another store on the fixture's database.
func (f *fixture) open(keys *keyring.Keyring) *Store {
	f.t.Helper()
	s, err := Open(f.ctx, Config{URL: f.url, Keyring: keys, Actor: "cli:ann", Now: func() time.Time { return f.time }})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return s
}

func (f *fixture) account(name, plan string) Account {
	f.t.Helper()
	return value(f.AddAccount(f.ctx, name, plan, nil))(f.t)
}

func (f *fixture) workspace(account, name string) Workspace {
	f.t.Helper()
	return value(f.AddWorkspace(f.ctx, account, name))(f.t)
}

func (f *fixture) person(account, email string, workspaces ...string) Person {
	f.t.Helper()
	return value(f.AddPerson(f.ctx, account, email, workspaces))(f.t)
}

func (f *fixture) connection(workspace, name string) Connection {
	f.t.Helper()
	return value(f.AddConnection(f.ctx, workspace, name, serviceAccountJSON))(f.t)
}

func (f *fixture) property(connection, site string) Property {
	f.t.Helper()
	return value(f.AddProperty(f.ctx, PropertySpec{Connection: connection, Site: site}))(f.t)
}

func (f *fixture) key(person, text string) APIKey {
	f.t.Helper()
	return value(f.CreateKey(f.ctx, keySpec(person, text), unlimited))(f.t)
}

// acme adds an account with a workspace, its member and its connection.
func (f *fixture) acme() (Person, Connection) {
	f.t.Helper()
	f.account("acme", "pro")
	f.workspace("acme", "main")
	return f.person("acme", "ann@acme.example", "main"), f.connection("main", "google")
}

var (
	serviceAccountJSON = []byte(`{"type":"service_account","client_email":"robot@project.iam.gserviceaccount.com","private_key":"-----PRIVATE"}`)
	authorizedUserJSON = []byte(`{"type":"authorized_user","client_id":"12.apps.example","client_secret":"hush","refresh_token":"1//refresh"}`)
)

func keySpec(person, text string) KeySpec {
	return KeySpec{Person: person, Name: text, Scopes: []string{"performance:read"}, Hash: sha256.Sum256([]byte(text))}
}

func unlimited(string) int { return 1 << 30 }

// value ends the test unless err is nil.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// refusal returns err as an error of type E, and ends the test if it is not one.
func refusal[E error](t testing.TB, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want a %T", err, err, e)
	}
	return e
}

// refused ends the test unless err is an error of type E.
func refused[E error](t testing.TB, err error) {
	t.Helper()
	_ = refusal[E](t, err)
}

func wantNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names maps each element to a name.
func names[T any](list []T, of func(T) string) []string {
	found := make([]string, len(list))
	for i, v := range list {
		found[i] = of(v)
	}
	return found
}

func testGeneration(t *testing.T, f *fixture) {
	before, edition := f.Generation(), value(f.Edition(f.ctx))(t)
	f.account("acme", "pro")
	if f.Generation() != before+1 {
		t.Errorf("a write moved the generation from %d to %d", before, f.Generation())
	}
	equal(t, value(f.Edition(f.ctx))(t), edition+1)
	_, err := f.AddAccount(f.ctx, "acme", "pro", nil)
	refused[*ExistsError](t, err)
	value(f.Accounts(f.ctx))(t)
	if f.Generation() != before+1 {
		t.Errorf("a refused write and a read moved the generation to %d", f.Generation())
	}
	equal(t, value(f.Edition(f.ctx))(t), edition+1)
}

func testRestart(t *testing.T, f *fixture) {
	p, c := f.acme()
	site := f.property("google", "sc-domain:example.com")
	key := f.key(p.Email, "text")
	note := value(f.AddAnnotation(f.ctx, site.ID, Annotation{Title: "launch"}))(t)
	wantNil(t, f.Close())

	s := f.open(newRing(t, testKey))
	equal(t, value(s.Migrate(f.ctx))(t), 0)
	equal(t, value(s.Connections(f.ctx))(t), []Connection{c})
	equal(t, value(s.Properties(f.ctx))(t), []Property{site})
	equal(t, value(s.Keys(f.ctx, p.Email))(t), []APIKey{key})
	equal(t, value(s.Annotations(f.ctx, site.ID, nil, nil))(t), []Annotation{note})
	credentials, err := s.Credentials(f.ctx, c.ID)
	wantNil(t, err)
	equal(t, string(credentials), string(serviceAccountJSON))
}

func testMigrateRace(t *testing.T, f *fixture) {
	provider := value(f.migrator())(t)
	value(provider.DownTo(f.ctx, 0))(t)
	if _, err := f.pools.jobs.ExecContext(f.ctx, "DROP TABLE goose_db_version"); err != nil {
		t.Fatal(err)
	}
	const racers = 4
	type result struct {
		applied int
		err     error
	}
	results := make(chan result, racers)
	for range racers {
		go func() {
			s, err := Open(f.ctx, Config{URL: f.url})
			if err != nil {
				results <- result{0, err}
				return
			}
			applied, err := s.Migrate(f.ctx)
			results <- result{applied, errors.Join(err, s.Close())}
		}()
	}
	applied := 0
	for range racers {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		applied += r.applied
	}
	equal(t, applied, len(provider.ListSources()))
	f.account("acme", "pro")
}

// Databases of every earlier schema can be opened with their content: the first schema has accounts, keys and properties.
// The test goes back by 1, 2, 4 and more versions, and to the first: going back to each one takes a quarter of the suite's time.
func testPreviousSchema(t *testing.T, f *fixture) {
	provider := value(f.migrator())(t)
	latest := len(provider.ListSources())
	p, _ := f.acme()
	site := f.property("google", "sc-domain:example.com")
	f.key(p.Email, "text")
	for back := 1; back < 2*(latest-1); back *= 2 {
		version := max(1, latest-back)
		value(provider.DownTo(f.ctx, int64(version)))(t)
		wantNil(t, f.Close())
		f.Store = f.open(newRing(t, testKey))
		provider = value(f.migrator())(t)
		equal(t, value(f.Migrate(f.ctx))(t), latest-version)
		equal(t, value(f.FindProperties(f.ctx, p.ID, "", "example.com"))(t), []policy.Property{site.Property})
		equal(t, value(f.findKey(keySpec("", "text").Hash))(t).PersonID, p.ID)
		value(f.AddAnnotation(f.ctx, site.ID, Annotation{Title: "launch"}))(t)
	}
}

func testNewerSchema(t *testing.T, f *fixture) {
	provider := value(f.migrator())(t)
	latest := int64(len(provider.ListSources()))
	version := func() [2]int64 {
		t.Helper()
		current, known, err := f.SchemaVersion(f.ctx)
		wantNil(t, err)
		return [2]int64{current, known}
	}
	equal(t, version(), [2]int64{latest, latest})
	value(affected(f.ctx, f.changes, "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)", latest+1, true))(t)
	equal(t, version(), [2]int64{latest + 1, latest})
	_, err := f.Migrate(f.ctx)
	equal(t, *refusal[*SchemaError](t, err), SchemaError{latest + 1, latest})
	value(affected(f.ctx, f.changes, "DROP TABLE goose_db_version"))(t)
	equal(t, version(), [2]int64{0, latest})
}

func numbered(format string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}
