package command

import (
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/status"
	"sara/policy"
	"sara/proxy"
	"sara/translate"
)

// addProperties adds n late properties with failed runs to the connection of seedStatus.
func addProperties(c *clitest.CLI, n int) {
	c.T.Helper()
	db, err := sql.Open("sqlite", c.Path("sara.db")) // the store has no bulk insert
	if err != nil {
		c.T.Fatal(err)
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		c.T.Fatal(err)
	}
	today := calendar.Day(time.Now())
	for _, statement := range []string{
		`INSERT INTO properties SELECT 'p'||n, id, workspace_id, 'sc-domain:'||n||'.example', n||'.example', 'domain', n||'.example',
			CAST(n||'.example' AS BLOB), 's'||n, '', FALSE, FALSE, '', 0 FROM numbers, connections`,
		`INSERT INTO archive_states SELECT 'p'||n, 20000, 20000 + n%100, 0, NULL, 3, 'it did not answer', '' FROM numbers`,
		`INSERT INTO index_states (property_id, number, refreshed_at, failures) SELECT 'p'||n, n, n, 3 FROM numbers`,
		fmt.Sprintf(`INSERT INTO inspection_counts SELECT %d, 'sc-domain:'||n||'.example', %d FROM numbers`, int(today), policy.InspectionsPerDay),
	} {
		numbers := fmt.Sprintf("WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d) ", n)
		if _, err := db.ExecContext(c.T.Context(), numbers+statement); err != nil {
			c.T.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		c.T.Fatal(err)
	}
}

// looks returns the allocations of a scrape and of sara status, with n properties that all need attention.
func looks(t *testing.T, n int) (scraped, reported float64) {
	t.Helper()
	c := clitest.New(t, sara)
	store := seedStatus(c, nil)
	addProperties(c, n)
	began, registry := time.Now(), prometheus.NewRegistry() // the budgets are those of this day
	now := began
	metrics, err := status.Register(&proxy.Config{Store: store, Admission: proxy.AdmissionConfig{Plans: policy.DefaultPlans()},
		Process: proxy.Process{Log: slog.New(slog.DiscardHandler), Registry: registry, Now: func() time.Time { return now }}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]float64
	scraped = testing.AllocsPerRun(3, func() {
		now = now.Add(time.Hour)
		metrics.Refresh(t.Context())
		shown = scrape(t, registry)
	})
	if shown["sara_archive_properties_behind"] != float64(n) || shown["sara_index_properties_behind"] != float64(n) ||
		shown["sara_archive_lag_days"] < 300 {
		t.Errorf("of %d properties: %v", n, shown)
	}
	reported = testing.AllocsPerRun(3, func() {
		r, err := status.Look(t.Context(), deploymentOf(c), began)
		if err != nil || r.Archive.Counts.Late != n || r.Indexing.Counts.Failing != n || r.Budgets.Counts.Sites != n ||
			len(r.Archive.Properties) != 20 || len(r.Indexing.Properties) != 20 || len(r.Budgets.Sites) != 20 {
			t.Fatalf("of %d properties: %+v, %+v, %+v (%v)", n, r.Archive.Counts, r.Indexing.Counts, r.Budgets.Counts, err)
		}
		if err := r.Print(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	return scraped, reported
}

// It runs alone, to count only its own allocations. Few enough properties for a scrape to end within its 3 s on a busy machine, with
// the race detector.
func TestStatusCostsTheSameForManyProperties(t *testing.T) {
	const few, many = 50, 1000
	scrapedFew, reportedFew := looks(t, few)
	scrapedMany, reportedMany := looks(t, many)
	t.Logf("a scrape allocates %v and %v times, sara status %v and %v times", scrapedFew, scrapedMany, reportedFew, reportedMany)
	if scrapedMany > 1.2*scrapedFew {
		t.Errorf("a scrape allocates %v times for %d properties, and %v times for %d", scrapedFew, few, scrapedMany, many)
	}
	if reportedMany > 1.2*reportedFew {
		t.Errorf("sara status allocates %v times for %d properties, and %v times for %d", reportedFew, few, reportedMany, many)
	}
}
