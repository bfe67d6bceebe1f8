package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sara/translate"
)

// A TrackedURL is a URL to inspect.
type TrackedURL struct {
	URL         string
	Clicks      int64
	Sitemaps    []string   // URLs of the sitemaps that contain it; shared between TrackedURLs, so read-only
	InspectedAt *time.Time // published or only staged, in whole seconds; nil for never
}

// An Inspection is the upstream's index status of one URL.
type Inspection struct {
	URL           string
	CoverageState string           // the upstream's label
	Bucket        translate.Bucket // of the label
	Verdict       string
	LastCrawl     *time.Time // nil for never; kept in whole seconds
	At            time.Time  // of the inspection; kept in whole seconds
}

const selectTracked = "SELECT u.url, u.clicks, u.sitemaps, coalesce(i.inspected_at, u.inspected_at) FROM indexed_urls u" +
	" LEFT JOIN staged_inspections i ON i.number = u.number AND i.url = u.url WHERE u.number = $1 ORDER BY u.url"

// TrackedURLs returns the URLs of the last discovery, ordered by URL.
func (s *Store) TrackedURLs(ctx context.Context, propertyID string) (urls []TrackedURL, err error) {
	defer wrap(&err, "list the tracked URLs of property %s", propertyID)
	err = snapshot(ctx, s.changes, bulkLimit, func(ctx context.Context, tx *sql.Tx) error {
		number, err := one(ctx, tx, scalar[sql.NullInt32], "SELECT "+indexNumber, named{"property": propertyID})
		if err != nil {
			return err
		}
		paths, err := readSetPaths(ctx, tx, number.Int32)
		if err != nil {
			return err
		}
		urls, err = all(ctx, tx, func(row scanner, u *TrackedURL) error {
			var set int32
			err := row.Scan(&u.URL, &u.Clicks, &set, optionalSeconds{&u.InspectedAt})
			u.Sitemaps = paths[set]
			return err
		}, selectTracked, number.Int32)
		return err
	})
	return urls, err
}

// StageInspection keeps an inspection durably until it is published. It replaces one that is already staged, and drops one for a
// URL that is not tracked. Generation stays the same.
func (s *Store) StageInspection(ctx context.Context, propertyID string, i Inspection) error {
	if i.Bucket == 0 {
		return &InputError{"bucket", "it is missing"}
	}
	label, err := s.coverageLabel(ctx, i.CoverageState)
	if err == nil {
		err = s.execute(ctx, stageInspection, i.Bucket, label, cleanNote(i.Verdict), seconds(i.LastCrawl), i.At.Unix(),
			propertyID, []byte(i.URL))
	}
	if err != nil {
		return fmt.Errorf("stage the inspection of %s for property %s: %w", i.URL, propertyID, err)
	}
	return nil
}

const stageInspection = "INSERT INTO staged_inspections (bucket, label, verdict, crawled_at, inspected_at, number, url)" +
	" SELECT $1, $2, $3, $4, $5, u.number, u.url FROM index_states s JOIN indexed_urls u ON u.number = s.number" +
	" WHERE s.property_id = $6 AND u.url = $7 ON CONFLICT (number, url) DO UPDATE SET bucket = excluded.bucket," +
	" label = excluded.label, verdict = excluded.verdict, crawled_at = excluded.crawled_at," +
	" inspected_at = excluded.inspected_at, taken = FALSE"

// coverageLabel returns the number of a label, and assigns one to a new label. The previous version filters by a label's family, which is
// the number of the first label with its spelling, so families are written until no process of that version can be running.
func (s *Store) coverageLabel(ctx context.Context, label string) (int32, error) {
	label = cleanLabel(label)
	return s.number(ctx, "SELECT number FROM coverage_labels WHERE label = $1", "INSERT INTO coverage_labels"+
		" (label, folded, number, family) SELECT $1, $2, max(number) + 1, coalesce(min(CASE WHEN folded = $2 THEN family END),"+
		" max(number) + 1) FROM coverage_labels WHERE TRUE ON CONFLICT DO NOTHING", label, translate.FoldCoverage(label))
}

// cleanLabel makes a label valid text that is short enough for an index.
func cleanLabel(label string) string {
	label = cleanNote(label)
	if runes := []rune(label); len(runes) > maxLabel {
		return string(runes[:maxLabel])
	}
	return label
}

// maxLabel is the length limit of a coverage label, in characters.
const maxLabel = 200

// PublishInspections publishes the staged inspections of a property: it recomputes its counts, records them under day, deletes the oldest
// days beyond keptIndexDays, and sets RefreshedAt. It returns the number of updated URLs. Readers see the whole change or nothing. It is
// idempotent, except for the time.
func (s *Store) PublishInspections(ctx context.Context, propertyID string, day translate.Date, at time.Time) (published int, err error) {
	defer wrap(&err, "publish the inspections of property %s", propertyID)
	if err := s.openIndex(ctx, propertyID); err != nil {
		return 0, err
	}
	err = transactWithin(ctx, s.changes, bulkLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
		number, err := find(ctx, tx, scalar[int32], &NotFoundError{"property", propertyID},
			"UPDATE index_states SET revision = revision + 1, refreshed_at = $1 WHERE property_id = $2 RETURNING number", at.UnixMilli(), propertyID)
		if err != nil {
			return err
		}
		if published, err = applyStaged(ctx, tx, number); err != nil {
			return err
		}
		if err := recount(ctx, tx, number); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, recordDay, day, number); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, pruneDays, number, keptIndexDays)
		return err
	})
	return published, err
}

// applyStaged moves the staged inspections of a property to its URLs. It marks them as taken first, so inspections staged
// concurrently stay for the next publication.
func applyStaged(ctx context.Context, tx *sql.Tx, number int32) (applied int, err error) {
	if _, err := tx.ExecContext(ctx, "UPDATE staged_inspections SET taken = TRUE WHERE number = $1", number); err != nil {
		return 0, fmt.Errorf("mark the staged inspections: %w", err)
	}
	n, err := affected(ctx, tx, applyInspections, number)
	if err != nil {
		return 0, fmt.Errorf("apply the staged inspections: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM staged_inspections WHERE number = $1 AND taken", number); err != nil {
		return 0, fmt.Errorf("remove the staged inspections: %w", err)
	}
	return int(n), nil
}

const applyInspections = "UPDATE indexed_urls SET bucket = i.bucket, label = i.label, family = l.family, verdict = i.verdict," +
	" crawled_at = i.crawled_at, inspected_at = i.inspected_at, crawled_asc = coalesce(i.crawled_at, 9223372036854775807)," +
	" crawled_desc = coalesce(i.crawled_at, -9223372036854775807)" +
	" FROM staged_inspections AS i JOIN coverage_labels AS l ON l.number = i.label" +
	" WHERE i.number = $1 AND i.taken AND indexed_urls.number = i.number AND indexed_urls.url = i.url"

// TakeInspection takes one of the limit inspections of a site on a day, and reports whether one was left. Of any number of
// concurrent callers, at most limit succeed. It is the quota of processes that share only this database.
func (s *Store) TakeInspection(ctx context.Context, site string, day translate.Date, limit int) (granted bool, err error) {
	if limit <= 0 {
		return false, nil
	}
	err = s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		taken, err := all(ctx, tx, scalar[int], "INSERT INTO inspection_counts (day, site, taken) VALUES ($1, $2, 1)"+
			" ON CONFLICT (day, site) DO UPDATE SET taken = inspection_counts.taken + 1 WHERE inspection_counts.taken < $3"+
			" RETURNING taken", day, site, limit)
		if granted = len(taken) == 1; err != nil || !granted || taken[0] > 1 {
			return err
		}
		// The first call of a day cleans up. The day before is kept: by another process's clock it may not be over.
		_, err = tx.ExecContext(ctx, "DELETE FROM inspection_counts WHERE day < $1", day-1)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take an inspection of %s on %s: %w", site, day, err)
	}
	return granted, nil
}

// TakenInspections returns the sites with at least least granted inspections on a day: the first most of them, the highest count first,
// and their total number.
func (s *Store) TakenInspections(ctx context.Context, day translate.Date, least, most int) (first []SiteInspections, total int, err error) {
	defer wrap(&err, "count the inspections of %s", day)
	const from = " FROM inspection_counts WHERE day = $1 AND taken >= $2"
	total, err = one(ctx, s.overview, scalar[int], "SELECT count(*)"+from, day, least)
	if err == nil && total > 0 {
		scan := func(row scanner, i *SiteInspections) error { return row.Scan(&i.Site, &i.Taken) }
		first, err = all(ctx, s.overview, scan, "SELECT site, taken"+from+" ORDER BY taken DESC, site LIMIT $3", day, least, most)
	}
	return first, total, err
}

// SiteInspections are the granted inspections of a site on a day.
type SiteInspections struct {
	Site  string
	Taken int
}

// seconds is the stored form of an optional time in seconds.
func seconds(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.Unix()
}

// optionalSeconds scans Unix seconds, or NULL as nil.
type optionalSeconds struct{ dst **time.Time }

func (o optionalSeconds) Scan(v any) error {
	*o.dst = nil
	switch v := v.(type) {
	case nil:
	case int64:
		*o.dst = new(time.Unix(v, 0).UTC())
	default:
		return fmt.Errorf("%T is not a time in seconds", v)
	}
	return nil
}
