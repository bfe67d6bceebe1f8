package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A DiscoveredSitemap is a sitemap of a property. The upstream's fields are nil for a sitemap that it does not list.
type DiscoveredSitemap struct {
	Path           string     // its URL
	LastDownloaded *time.Time // by the upstream; nil for never
	IsPending      *bool
	Warnings       *int64
	Errors         *int64
	Problem        string // why it was not read completely, for users; empty if it was
}

// A DiscoveredURL is a URL to track.
type DiscoveredURL struct {
	URL      string  // at most 2,048 characters of printable ASCII
	Clicks   int64   // its importance
	Sitemaps []int32 // indexes into Discovery.Sitemaps of the sitemaps that contain it, ascending
}

// A Discovery is everything to track for a property.
type Discovery struct {
	At       time.Time
	Source   string // sitemap, performance or sitemap+performance; empty if nothing was found
	Capped   bool   // more URLs exist than the plan allows
	Sitemaps []DiscoveredSitemap
	URLs     []DiscoveredURL // distinct
}

const (
	maxURL = 2048
	// An index entry of PostgreSQL holds at most 2,704 bytes: a URL, its lower-case form, and some numbers.
	maxIndexed = 2500
)

func (d *Discovery) check() error {
	seen := make(map[string]bool, len(d.URLs))
	for _, u := range d.URLs {
		if seen[u.URL] {
			return &InputError{"URL", fmt.Sprintf("%.100q is given twice", u.URL)}
		}
		seen[u.URL] = true
		if len(u.URL) == 0 || len(u.URL) > maxURL || strings.ContainsFunc(u.URL, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return &InputError{"URL", fmt.Sprintf("%.100q must be 1 to %d characters of printable ASCII", u.URL, maxURL)}
		}
	}
	return nil
}

// SaveDiscovery replaces the tracked URLs and sitemaps of a property. URLs that stay tracked keep their published and staged
// inspections; those of dropped URLs are deleted. Readers see the whole change or nothing.
//
// The first discovery of 100,000 URLs holds SQLite's write lock for several seconds; later ones write only differences.
func (s *Store) SaveDiscovery(ctx context.Context, propertyID string, d Discovery) (err error) {
	defer wrap(&err, "save the discovery of property %s", propertyID)
	if err := d.check(); err != nil {
		return err
	}
	if err := s.openIndex(ctx, propertyID); err != nil {
		return err
	}
	return transactWithin(ctx, s.changes, bulkLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
		// Updating the revision first locks the row, which serializes discovery and publication for a property.
		number, err := find(ctx, tx, scalar[int32], &NotFoundError{"property", propertyID},
			"UPDATE index_states SET revision = revision + 1, discovered_at = $1, source = $2, urls = $3, capped = $4 WHERE property_id = $5 RETURNING number",
			d.At.UnixMilli(), d.Source, len(d.URLs), d.Capped, propertyID)
		if err != nil {
			return err
		}
		sets, err := saveSitemaps(ctx, tx, number, &d)
		if err != nil {
			return err
		}
		if err := saveURLs(ctx, tx, number, d.URLs, sets); err != nil {
			return err
		}
		return recount(ctx, tx, number)
	})
}

// trackedURL is a row of indexed_urls without its inspection.
type trackedURL struct {
	url      []byte
	clicks   int64
	sitemaps int32
}

func scanTracked(row scanner, u *trackedURL) error {
	return row.Scan(&u.url, &u.clicks, &u.sitemaps)
}

// saveURLs replaces the URLs of a property with urls; the i-th is in the sitemap set sets[i]. It writes only differences.
func saveURLs(ctx context.Context, tx *sql.Tx, number int32, urls []DiscoveredURL, sets []int32) error {
	tracked, err := all(ctx, tx, scanTracked, "SELECT url, clicks, sitemaps FROM indexed_urls WHERE number = $1", number)
	if err != nil {
		return fmt.Errorf("read the tracked URLs: %w", err)
	}
	before := make(map[string]trackedURL, len(tracked))
	for _, u := range tracked {
		before[string(u.url)] = u
	}
	var changed [][]any
	for i, u := range urls {
		url := []byte(u.URL)
		old, isTracked := before[u.URL]
		if !isTracked || old.clicks != u.Clicks || old.sitemaps != sets[i] {
			changed = append(changed, []any{number, url, foldedURL(url), u.Clicks, sets[i]})
		}
		delete(before, u.URL)
	}
	gone := before // those that were not found again
	if err := dropURLs(ctx, tx, number, gone); err != nil {
		return fmt.Errorf("delete %d URLs: %w", len(gone), err)
	}
	// In index order, so neighbouring rows are written together.
	slices.SortFunc(changed, func(a, b []any) int { return bytes.Compare(a[1].([]byte), b[1].([]byte)) })
	err = eachBatch(changed, func(values string, args []any) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO indexed_urls (number, url, folded, clicks, sitemaps) VALUES "+values+
			" ON CONFLICT (number, url) DO UPDATE SET clicks = excluded.clicks, sitemaps = excluded.sitemaps", args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("track %d URLs: %w", len(changed), err)
	}
	return nil
}

// dropURLs deletes URLs of a property, and their inspections.
func dropURLs(ctx context.Context, tx *sql.Tx, number int32, dropped map[string]trackedURL) error {
	urls := make([][]any, 0, len(dropped))
	for _, u := range dropped {
		urls = append(urls, []any{u.url})
	}
	for _, table := range []string{"staged_inspections", "indexed_urls"} {
		err := eachBatch(urls, func(values string, args []any) error {
			_, err := tx.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE number = %d AND url IN (%s)", table, number, values), args...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// foldedURL is the value of the column folded for a URL: its lower-case form, NULL if that is equal, empty if it is too long.
func foldedURL(url []byte) any {
	folded := bytes.ToLower(url)
	switch {
	case bytes.Equal(folded, url):
		return nil
	case len(url)+len(folded) > maxIndexed:
		return []byte{}
	}
	return folded
}

// maxBatch is how many rows one statement carries. Even for the widest table, their values stay below the limits of both databases.
const maxBatch = 250

// eachBatch calls do for batches of rows, with the placeholders of a VALUES list and the arguments. All rows have the same length.
func eachBatch(rows [][]any, do func(values string, args []any) error) error {
	for batch := range slices.Chunk(rows, maxBatch) {
		var values strings.Builder
		args := make([]any, 0, len(batch)*len(batch[0]))
		for i, row := range batch {
			if i > 0 {
				values.WriteByte(',')
			}
			opening := "("
			for _, v := range row {
				args = append(args, v)
				fmt.Fprintf(&values, "%s$%d", opening, len(args))
				opening = ","
			}
			values.WriteByte(')')
		}
		if err := do(values.String(), args); err != nil {
			return err
		}
	}
	return nil
}
