package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

// The ids of testdata/schema7.jsonl, which has the rows that a version with schema 7 wrote: it added an account with a key, a revoked one,
// and two properties, archived nine days, and inspected eight URLs. testKey7 sealed its credentials, without naming the key.
const (
	account7    = "01a21e7f-c42a-749a-b378-ce2541ad93d9"
	person7     = "01a21e7f-ca11-7b9e-af04-bdfd114df0c3"
	workspace7  = "01a21e7f-c570-78e2-b567-18cede75739c"
	connection7 = "01a21e7f-cd40-700d-aba6-d3b30fdde13d"
	property7   = "01a21e7f-cf05-7467-a4e1-e9937943ce5a"
	testKey7    = "sara is not secret in this test."
)

// loadSchema7 replaces everything in the database with those rows, and migrates it.
func (f *fixture) loadSchema7() {
	f.t.Helper()
	const schema = 7
	provider := value(f.migrator())(f.t)
	value(provider.DownTo(f.ctx, 0))(f.t)
	value(provider.UpTo(f.ctx, schema))(f.t)
	rows := value(os.Open("testdata/schema7.jsonl"))(f.t)
	defer func() { wantNil(f.t, rows.Close()) }()
	wantNil(f.t, transactWithin(f.ctx, f.changes, backupLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
		l := loader{tx: tx}
		return l.rows(ctx, rows)
	}))
	f.Store = f.open(newRing(f.t, testKey, []byte(testKey7))) // the one before has seen the tables change
	equal(f.t, value(f.Migrate(f.ctx))(f.t), len(provider.ListSources())-schema)
}

func testOldRows(t *testing.T, f *fixture) {
	f.loadSchema7()
	hash := func(text string) policy.Hash { return policy.Hash(value(base64.StdEncoding.DecodeString(text))(t)) }
	equal(t, value(f.findKey(hash("zc0eRICwwZL4vXf7LHvdKmj1sQe6JT70oGywKNetkiw=")))(t), policy.Key{ID: "01a21e7f-d316-7a87-9fe7-4b3d1276db2f",
		Scopes: policy.AllScopes, PersonID: person7, AccountID: account7, PlanName: "agency"})
	revoked := value(f.findKey(hash("O5Xgk2q217VkJHIecb6kqnoUeg3P+G32hMOnPY353VE=")))(t)
	equal(t, revoked.RevokedAt.UTC(), time.Date(2026, 11, 27, 19, 33, 44, 106_000_000, time.UTC))
	equal(t, revoked.Workspace, &policy.Workspace{ID: workspace7, Name: "Main"})

	found := policy.Property{ID: property7, Site: "sc-domain:quiet.example", Host: "quiet.example", Type: policy.DomainProperty,
		DisplayName: "quiet.example", Slug: "quiet-example", History: &policy.DayRange{First: 20754, Last: 20762},
		Connection: policy.Connection{ID: connection7, Revision: 1, Healthy: true}}
	equal(t, value(f.FindProperties(f.ctx, person7, "", "quiet.example"))(t), []policy.Property{found})
	equal(t, value(f.FindProperties(f.ctx, person7, workspace7, "late.example"))(t)[0].Archived, true)
	credentials := string(value(f.Credentials(f.ctx, connection7))(t))
	if !strings.Contains(credentials, `"refresh_token":"1//r"`) && !strings.Contains(credentials, `"refresh_token": "1//r"`) {
		t.Errorf("the credentials are %s", credentials)
	}
	equal(t, names(value(f.BrandTerms(f.ctx, property7))(t), func(b translate.BrandTerm) string { return b.Term }), []string{"quiet", "quite"})
	groups := value(f.PageGroups(f.ctx, property7))(t)
	equal(t, groups[0].Rules, []translate.PageRule{{Type: "prefix", Value: "/blog"}})
	equal(t, value(f.Annotations(f.ctx, property7, nil, nil))(t)[0].Note, "new shop")
	equal(t, value(f.Usage(f.ctx, 20784))(t), []policy.UsageCount{{AccountID: account7, Hour: 498835, Day: 20784, InHour: 8, InDay: 8, Calls: 1}})
}

// What was inspected before the migration counts together with what is inspected after it.
func testOldInspections(t *testing.T, f *fixture) {
	f.loadSchema7()
	const label, url = "Indexed, not submitted in sitemap", "https://www.quiet.example/search?q=saddle&page=7"
	day := translate.Date(20784)
	count := func(label string) (n int) {
		for _, c := range value(f.IndexSummary(f.ctx, property7, &day))(t).Coverage {
			if c.CoverageState == label {
				n += c.Count
			}
		}
		page := value(f.IndexedURLs(f.ctx, property7, IndexQuery{CoverageState: label, Order: translate.Order{By: "url"}, Limit: 100}))(t)
		equal(t, []int{page.Total, len(page.Rows)}, []int{n, n})
		return n
	}
	equal(t, []int{count("Submitted and indexed"), count(label)}, []int{5, 2})
	equal(t, value(f.IndexSummary(f.ctx, property7, &day))(t).Trend, []IndexDay{{Date: day, URLs: 16, Indexed: 8}})
	granted, err := f.TakeInspection(f.ctx, "sc-domain:quiet.example", day, 8)
	equal(t, []any{granted, err}, []any{false, nil})
	f.inspect(property7, label, url)
	equal(t, value(f.PublishInspections(f.ctx, property7, day, f.time))(t), 1)
	equal(t, count(label), 3)
}

// A migration that databases have is not run again: if its statements changed, these would have another schema than new ones. Add a
// migration instead. Comments may change.
func TestMigrationsDoNotChange(t *testing.T) {
	t.Parallel()
	statements := map[string]string{fmt.Sprintf("%04d", appendOnlyVersion): strings.Join([]string{refuseUpdate, refuseDelete, postgresRefusal,
		postgresRefuseUpdate, postgresRefuseDelete, postgresRefuseTruncate}, "\n")}
	comments := regexp.MustCompile(`--( [^+].*)?\n`) // without those that goose reads
	for _, file := range value(fs.Glob(migrations, "migrations/*.sql"))(t) {
		statements[path.Base(file)[:4]] = comments.ReplaceAllString(string(value(fs.ReadFile(migrations, file))(t)), "\n")
	}
	var hashes []string
	for _, version := range slices.Sorted(maps.Keys(statements)) {
		sum := sha256.Sum256([]byte(strings.Join(strings.Fields(statements[version]), " ")))
		hashes = append(hashes, fmt.Sprintf("%s:%x", version, sum[:4]))
	}
	equal(t, hashes, []string{
		"0001:5db36243", "0002:868792f4", "0003:14741547", "0004:8759619a", "0005:a90da8d4", "0006:25436fd4", "0007:19ffd0a8", "0008:8046d798",
		"0009:f11700cf", "0010:a5bf3942", "0011:739382b5", "0012:3c171f06", "0013:80e275cc", "0014:a4e59399", "0015:65e33d29", "0016:309798d5",
		"0017:946b5346",
	})
}
