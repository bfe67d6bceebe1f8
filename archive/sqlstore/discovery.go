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

// A DiscoveredSitemap is a sitemap of a property, as the upstream lists it and as it was when it was read.
type DiscoveredSitemap struct {
	Path           string     // its address
	LastDownloaded *time.Time // by the upstream; nil for never, and like the next three when the upstream does not list it
	IsPending      *bool
	Warnings       *int64
	Errors         *int64
	Problem        string // why it was not read, or not wholly, for people; empty if it was
}

// A DiscoveredURL is a URL that is to be tracked.
type DiscoveredURL struct {
	URL      string  // at most 2,048 characters of printable ASCII
	Clicks   int64   // what makes it important
	Sitemaps []int32 // those it is in, as indexes into Discovery.Sitemaps, ascending
}

// A Discovery is all that is to be tracked of a property.
type Discovery struct {
	At       time.Time
	Source   string // sitemap, performance or sitemap+performance; empty when nothing was found
	Capped   bool   // there were more URLs than the plan allows
	Sitemaps []DiscoveredSitemap
	URLs     []DiscoveredURL // distinct
}

const (
	maxURL = 2048
	// An entry of an index of PostgreSQL has room for 2,704 bytes: a URL, the same in lower case, and some numbers.
	maxIndexed = 2500
)

func (d *Discovery) check() error {
	seen := make(map[string]bool, len(d.URLs))
	for _, u := range d.URLs {
		if seen[u.URL] {
			return &InputError{"URL", fmt.Sprintf("%.100q is there twice", u.URL)}
		}
		seen[u.URL] = true
		if len(u.URL) == 0 || len(u.URL) > maxURL || strings.ContainsFunc(u.URL, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return &InputError{"URL", fmt.Sprintf("%.100q is not 1 to %d characters of printable ASCII", u.URL, maxURL)}
		}
	}
	return nil
}

// SaveDiscovery replaces the URLs and the sitemaps that are tracked of a property. URLs that it tracked before keep their
// results, published and staged, and those that are gone lose them. Readers see all of the change or nothing.
//
// The first discovery of 100,000 URLs holds SQLite's write lock for some seconds; later ones write only what is new.
func (s *Store) SaveDiscovery(ctx context.Context, propertyID string, d Discovery) error {
	err := d.check()
	if err == nil {
		err = s.openIndex(ctx, propertyID)
	}
	if err == nil {
		err = s.transactWithin(ctx, bulkLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
			// Whoever changes what is tracked or published raises the revision first, which makes the next one wait.
			number, err := one(ctx, tx, scalar[int32], "UPDATE index_states SET revision = revision + 1, discovered_at = $1,"+
				" source = $2, urls = $3, capped = $4 WHERE property_id = $5 RETURNING number",
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
	if err != nil {
		return fmt.Errorf("save what was discovered of property %s: %w", propertyID, err)
	}
	return nil
}

// trackedURL is a row of indexed_urls but for its result.
type trackedURL struct {
	url      []byte
	clicks   int64
	sitemaps int32
}

func scanTracked(row scanner) (u trackedURL, err error) {
	err = row.Scan(&u.url, &u.clicks, &u.sitemaps)
	return u, err
}

// saveURLs makes the rows of a property those of urls, of which the i-th is in the set sets[i]. Rows that are so already are
// not written.
func saveURLs(ctx context.Context, tx *sql.Tx, number int32, urls []DiscoveredURL, sets []int32) error {
	tracked, err := allWithin(ctx, bulkLimit, tx, scanTracked, "SELECT url, clicks, sitemaps FROM indexed_urls WHERE number = $1", number)
	if err != nil {
		return fmt.Errorf("read what is tracked: %w", err)
	}
	before := make(map[string]trackedURL, len(tracked))
	for _, u := range tracked {
		before[string(u.url)] = u
	}
	var changed [][]any
	for i, u := range urls {
		url := []byte(u.URL)
		old, known := before[u.URL]
		if !known || old.clicks != u.Clicks || old.sitemaps != sets[i] {
			changed = append(changed, []any{number, url, foldedURL(url), u.Clicks, sets[i]})
		}
		delete(before, u.URL)
	}
	var gone [][]any
	for _, u := range before {
		gone = append(gone, []any{u.url})
	}
	for _, table := range []string{"staged_inspections", "indexed_urls"} {
		err := eachBatch(gone, func(values string, args []any) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+table+fmt.Sprintf(" WHERE number = %d AND url IN (%s)", number, values), args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("forget %d URLs: %w", len(gone), err)
		}
	}
	// In the order of the index, next to each other.
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

// foldedURL is what the column of that name holds for a URL.
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

// maxBatch is how many rows one statement carries.
const maxBatch = 250

// eachBatch calls do for batches of rows of one length, each with its placeholders as VALUES takes them, and its arguments.
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
