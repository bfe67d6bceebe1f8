package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// sitemapNumbers assigns the database numbers of sitemaps and of sets of them. Existing numbers are kept, so rows that refer to
// them need not be rewritten.
type sitemapNumbers struct {
	sitemaps             map[string]int32 // by path
	sets                 map[string]int32 // by setKey
	lastSitemap, lastSet int32
}

// setKey identifies a set of sitemaps, which are in ascending order.
func setKey(sitemaps []int32) string { return fmt.Sprint(sitemaps) }

func (n *sitemapNumbers) sitemap(path string) int32 {
	if _, exists := n.sitemaps[path]; !exists {
		n.lastSitemap++
		n.sitemaps[path] = n.lastSitemap
	}
	return n.sitemaps[path]
}

// set returns the number of a set, whose sitemaps are in ascending order.
func (n *sitemapNumbers) set(sitemaps []int32) int32 {
	if len(sitemaps) == 0 {
		return 0
	}
	key := setKey(sitemaps)
	if _, exists := n.sets[key]; !exists {
		n.lastSet++
		n.sets[key] = n.lastSet
	}
	return n.sets[key]
}

type numberedSitemap struct {
	sitemap int32
	path    []byte
}

func scanSitemap(row scanner, m *numberedSitemap) error {
	return row.Scan(&m.sitemap, &m.path)
}

// A setMember is a sitemap in a set.
type setMember struct{ set, sitemap int32 }

func scanMember(row scanner, m *setMember) error {
	return row.Scan(&m.set, &m.sitemap)
}

const (
	selectSitemapPaths = "SELECT sitemap, path FROM index_sitemaps WHERE number = $1"
	selectSitemapSets  = "SELECT sitemaps, sitemap FROM index_sitemap_sets WHERE number = $1 ORDER BY sitemaps, sitemap"
)

// readSitemapSets returns the sitemaps of each set, ascending.
func readSitemapSets(ctx context.Context, q querier, number int32) (map[int32][]int32, error) {
	members, err := all(ctx, q, scanMember, selectSitemapSets, number)
	sets := map[int32][]int32{}
	for _, m := range members {
		sets[m.set] = append(sets[m.set], m.sitemap)
	}
	return sets, err
}

func readSitemapNumbers(ctx context.Context, q querier, number int32) (*sitemapNumbers, error) {
	n := &sitemapNumbers{sitemaps: map[string]int32{}, sets: map[string]int32{}}
	paths, err := all(ctx, q, scanSitemap, selectSitemapPaths, number)
	if err != nil {
		return nil, err
	}
	for _, m := range paths {
		n.sitemaps[string(m.path)], n.lastSitemap = m.sitemap, max(n.lastSitemap, m.sitemap)
	}
	sets, err := readSitemapSets(ctx, q, number)
	for set, sitemaps := range sets {
		n.sets[setKey(sitemaps)], n.lastSet = set, max(n.lastSet, set)
	}
	return n, err
}

// saveSitemaps replaces the sitemaps of a property and their sets. It returns the number of the set of each URL.
func saveSitemaps(ctx context.Context, tx *sql.Tx, number int32, d *Discovery) (sets []int32, err error) {
	numbers, err := readSitemapNumbers(ctx, tx, number)
	if err != nil {
		return nil, fmt.Errorf("read the sitemaps: %w", err)
	}
	sitemaps, rows := make([]int32, len(d.Sitemaps)), make([][]any, len(d.Sitemaps))
	for i, m := range d.Sitemaps {
		sitemaps[i] = numbers.sitemap(m.Path)
		rows[i] = []any{number, sitemaps[i], []byte(m.Path), optionalMillis(m.LastDownloaded), m.IsPending, m.Warnings, m.Errors,
			cleanNote(m.Problem)}
	}
	sets = make([]int32, len(d.URLs))
	var members [][]any
	written := map[int32]bool{0: true}
	for i, u := range d.URLs {
		in := make([]int32, len(u.Sitemaps))
		for j, m := range u.Sitemaps {
			in[j] = sitemaps[m]
		}
		slices.Sort(in)
		sets[i] = numbers.set(in)
		if !written[sets[i]] {
			written[sets[i]] = true
			for _, m := range in {
				members = append(members, []any{number, sets[i], m})
			}
		}
	}
	return sets, replaceSitemaps(ctx, tx, number, rows, members)
}

func replaceSitemaps(ctx context.Context, tx *sql.Tx, number int32, sitemaps, members [][]any) error {
	for _, table := range []string{"index_sitemap_sets", "index_sitemaps"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE number = $1", number); err != nil {
			return fmt.Errorf("delete sitemaps: %w", err)
		}
	}
	for _, t := range []struct {
		into string
		rows [][]any
	}{
		{"index_sitemaps (number, sitemap, path, last_downloaded, is_pending, warnings, errors, problem)", sitemaps},
		{"index_sitemap_sets (number, sitemaps, sitemap)", members},
	} {
		err := eachBatch(t.rows, func(values string, args []any) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO "+t.into+" VALUES "+values, args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("save sitemaps: %w", err)
		}
	}
	return nil
}

const selectSetPaths = "SELECT m.sitemaps, p.path FROM index_sitemap_sets m JOIN index_sitemaps p ON p.number = m.number" +
	" AND p.sitemap = m.sitemap WHERE m.number = $1 ORDER BY m.sitemaps, p.path"

// readSetPaths returns the URLs of the sitemaps of each set, in byte order.
func readSetPaths(ctx context.Context, q querier, number int32) (map[int32][]string, error) {
	type member struct {
		set  int32
		path string
	}
	members, err := all(ctx, q, func(row scanner, m *member) error { return row.Scan(&m.set, &m.path) }, selectSetPaths, number)
	paths := map[int32][]string{}
	for _, m := range members {
		paths[m.set] = append(paths[m.set], m.path)
	}
	return paths, err
}
