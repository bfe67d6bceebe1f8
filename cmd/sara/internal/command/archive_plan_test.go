package command

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/clitest"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func TestArchivePlan(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for name, args := range map[string][]string{
		"plan.txt":       nil,
		"plan-small.txt": {"--properties", "3", "--history-months", "1"},
	} {
		got := c.OK(append([]string{"archive", "plan"}, args...)...)
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || !bytes.Equal([]byte(got), want) {
			t.Errorf("%s (%v):\n%s", file, err, got)
		}
	}
	plan := c.Object("properties history_months needs", "archive", "plan", "--properties", "2")
	if needs, ok := plan["needs"].([]any); !ok || len(needs) != len(planArchive(2, 60)) {
		t.Errorf("plan: %v", plan)
	}
	c.Fails(ExitUsage, []string{"archive", "plan", "--properties", "0"}, "--properties 0 is not a number of 1 to")
	c.Fails(ExitUsage, []string{"archive", "plan", "--history-months=-1"}, "--history-months -1")
}

// countingGateway is an upstream with the same figures for every day and dimension.
type countingGateway struct{ calls atomic.Int64 }

func (s *countingGateway) Query(_ context.Context, _ upstream.Target, q translate.Query) (*translate.Rows, error) {
	s.calls.Add(1)
	var rows translate.RowsBuilder
	traffic := translate.Metrics{Clicks: 1, Impressions: 2, Position: 3}
	if q.Dimension != translate.ByDate {
		rows.Add([]byte("key"), traffic)
		return rows.Rows(), nil
	}
	for day := q.Range.Start; day <= q.Range.End; day++ {
		rows.Add([]byte(day.String()), traffic)
	}
	return rows.Rows(), nil
}

type noStore struct{}

func (noStore) SaveArchiveState(context.Context, sqlstore.ArchiveState) error { return nil }

func (noStore) NewestArchivedDay(context.Context) (*translate.Date, error) { return nil, nil }

// TestPlanMatchesCollector counts the calls of the collector, and fails when the plan's formulas no longer match them.
func TestPlanMatchesCollector(t *testing.T) {
	t.Parallel()
	store, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 4, 15, 12, 0, 0, 0, time.UTC)
	history, err := archive.NewHistory(archive.HistoryConfig{Bucket: store})
	if err != nil {
		t.Fatal(err)
	}
	const fast = 100_000_000
	source := new(countingGateway)
	property := collector.Property{RetentionMonths: 1,
		Target: upstream.Target{PropertyID: "0b0e8a52-6f0e-4c62-9a57-0f3a1a5e7c11", Site: clitest.ShopSite}}
	current := func(context.Context, string) (collector.Property, bool, error) { return property, true, nil }
	c, err := collector.New(collector.Config{History: history, Gateway: source, Store: noStore{}, Current: current, PerSite: fast, PerConnection: fast,
		RunConfig: schedule.RunConfig{Now: func() time.Time { return now }, Total: fast}})
	if err != nil {
		t.Fatal(err)
	}
	calls := func() int64 {
		t.Helper()
		before := source.calls.Load()
		results, err := c.Collect(t.Context(), []collector.Property{property}, collector.Span{})
		if err != nil || results[0].Err != nil {
			t.Fatalf("%v, %+v", err, results)
		}
		return source.calls.Load() - before
	}
	planned := make(map[string]int64)
	for _, line := range planArchive(1, 1) {
		if strings.HasPrefix(line.Name, "upstream calls") {
			planned[line.When] = line.Value
		}
	}
	if got := calls(); got != planned["backfill"] { // the month to 13 April has 31 days
		t.Errorf("the backfill of a month makes %d calls, planned are %d", got, planned["backfill"])
	}
	now = now.AddDate(0, 0, 1)
	if got := calls(); got != planned["day"] {
		t.Errorf("a day makes %d calls, planned are %d", got, planned["day"])
	}
}
