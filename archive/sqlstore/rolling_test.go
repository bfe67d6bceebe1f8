package sqlstore

import (
	"database/sql"
	"testing"

	"sara/policy"
	"sara/translate"
)

// The statements of the version before 0009 that use columns which the current version no longer reads.
const (
	labelBefore = "INSERT INTO coverage_labels (label, folded, number, family) SELECT $1, $2, max(number) + 1," +
		" coalesce(min(CASE WHEN folded = $2 THEN family END), max(number) + 1) FROM coverage_labels WHERE TRUE ON CONFLICT DO NOTHING"
	inspectBefore = "UPDATE indexed_urls SET bucket = $1, label = l.label, family = l.family, inspected_at = $2" +
		" FROM (SELECT number AS label, family FROM coverage_labels WHERE label = $3) AS l WHERE url = $4"
	uncountBefore = "DELETE FROM index_counts"
	countBefore   = "INSERT INTO index_counts (number, bucket, label, family, sitemaps, urls)" +
		" SELECT number, bucket, label, family, sitemaps, count(*) FROM indexed_urls GROUP BY number, bucket, label, family, sitemaps"
	findBefore  = "SELECT url FROM indexed_urls WHERE bucket > 0 AND family = (SELECT min(family) FROM coverage_labels WHERE folded = $1) ORDER BY url"
	totalBefore = "SELECT coalesce(sum(urls), 0) FROM index_counts WHERE family = (SELECT min(family) FROM coverage_labels WHERE folded = $1)"
)

// Both versions publish inspections of the same URLs in turn, with different spellings of one label and with labels new to either version.
func testRollingUpdate(t *testing.T, f *fixture) {
	site := f.indexed()
	a, b, c := "https://example.com/a", "https://example.com/b", "https://example.com/c"
	f.discover(site.ID, Discovery{URLs: urlsOf(a, b, c)})
	before := func(statement string, args ...any) {
		t.Helper()
		value(f.changes.ExecContext(f.ctx, statement, args...))(t)
	}
	publishBefore := func(label, url string) {
		t.Helper()
		before(labelBefore, label, translate.FoldCoverage(label))
		before(inspectBefore, translate.BucketError, f.time.Unix(), label, []byte(url))
		before(uncountBefore)
		before(countBefore)
	}
	wantBefore := func(label string, urls ...string) {
		t.Helper()
		folded := translate.FoldCoverage(label)
		found := value(all(f.ctx, f.changes, func(row scanner, found *string) error {
			var url sql.RawBytes
			err := row.Scan(&url)
			*found = string(url)
			return err
		}, findBefore, folded))(t)
		equal(t, found, urls)
		equal(t, value(one(f.ctx, f.changes, scalar[int], totalBefore, folded))(t), len(urls))
	}
	f.inspect(site.ID, "Soft 404", a, b)
	equal(t, f.publish(site.ID), 2)
	wantBefore("Soft 404", a, b)

	publishBefore("soft 404", c)
	publishBefore("Server error (5xx)", b)
	wantBefore("Soft 404", a, c)
	wantBefore("Server error (5xx)", b)

	f.inspect(site.ID, "Server error (5xx)", a)
	f.inspect(site.ID, "Not found (404)", c)
	equal(t, f.publish(site.ID), 2)
	wantBefore("Server error (5xx)", a, b)
	wantBefore("Not found (404)", c)
	query := byURL(10)
	query.CoverageState = "Server error (5xx)"
	equal(t, urlNames(value(f.IndexedURLs(f.ctx, site.ID, query))(t).Rows), []string{a, b})

	publishBefore("Not found (404)", b)
	wantBefore("Not found (404)", b, c)
	query.CoverageState = "Not found (404)"
	page := value(f.IndexedURLs(f.ctx, site.ID, query))(t)
	equal(t, urlNames(page.Rows), []string{b, c})
	equal(t, page.Total, 2)
}

// The columns that the version before 0017 reads and writes.
const usageColumnsBefore = "replica, account_id, hour, day, in_hour, in_day, calls, returned, local_in_hour, local_in_day, local_calls," +
	" local_returned, seen_in_hour, seen_in_day, seen_calls, per_hour, per_day, calls_per_day"

// Both versions save what one replica has admitted of an account, and each reads what the other has saved.
func testRollingReplicaUsage(t *testing.T, f *fixture) {
	at := policy.UsageCount{AccountID: "a", Hour: 24 * 20_833, Day: 20_833}
	u := policy.ReplicaUsage{Replica: "r", Used: at, Local: at, Leased: at, Seen: at, PerHour: 250, PerDay: 1000, CallsPerDay: -1}
	u.Used.InDay, u.Local.InDay, u.Leased.InDay = 9, 5, 3
	value(f.changes.ExecContext(f.ctx, "INSERT INTO replica_usage ("+usageColumnsBefore+")"+
		" VALUES ('r', 'a', 499992, 20833, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0, 250, 1000, -1)"))(t)
	before := u
	before.Leased = at
	equal(t, value(f.ReplicaUsage(f.ctx, "", 20_833, policy.ReplicaAccount{}, 9))(t), []policy.ReplicaUsage{before})
	equal(t, len(value(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{u}))(t)), 0)
	equal(t, value(f.ReplicaUsage(f.ctx, "", 20_833, policy.ReplicaAccount{}, 9))(t), []policy.ReplicaUsage{u})
	local := value(one(f.ctx, f.changes, scalar[int], "SELECT local_in_day FROM (SELECT "+usageColumnsBefore+" FROM replica_usage) AS before"))(t)
	equal(t, local, 5)
}
