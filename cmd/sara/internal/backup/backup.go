// Package backup writes a deployment into a folder, and restores it: the rows of the database, and the objects of the archive. Servers may
// run during a backup, but not during a restore.
//
// The folder has manifest.json, database.jsonl.gz, the folder archive, and SHA256SUMS, which sha256sum -c checks. The manifest is
// written last: a folder without one is an interrupted backup. Secret keys are never in it; stored credentials stay sealed with them.
//
// Memory is bounded by a row, by a few objects, and by the names of the objects.
package backup

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive/bucket"
	"sara/archive/sqlstore"
)

const (
	format       = 1
	manifestFile = "manifest.json"
	sumsFile     = "SHA256SUMS"
	databaseFile = "database.jsonl.gz"
	objectFolder = "archive"
	parallel     = 8 // objects at a time
)

// A Manifest describes a backup.
type Manifest struct {
	Format    int      `json:"format"`
	CreatedAt string   `json:"created_at"`
	Version   string   `json:"sara_version"`
	Database  Database `json:"database"`
	Archive   Archive  `json:"archive"`
	// SecretKeys are the ids of the keys that the stored credentials need. The keys themselves are not in the backup.
	SecretKeys []string `json:"secret_keys"`
	Checksums  string   `json:"checksums_sha256"` // of SHA256SUMS
}

// Database is the part of a Manifest about the database.
type Database struct {
	Kind   string         `json:"kind"`
	Schema int64          `json:"schema"`
	Rows   map[string]int `json:"rows"`
}

// Archive is the part of a Manifest about the archive.
type Archive struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// A Source is what is backed up.
type Source struct {
	Store   *sqlstore.Store
	Objects bucket.Bucket
	Now     time.Time
	Version string // of the program
}

// Write writes a backup into a folder that does not exist yet, or is empty. The database comes first: objects that are newer than its
// rows do no harm, and are found by the next collection. A database that this program would have to migrate is an error.
func Write(ctx context.Context, folder string, from Source) (m Manifest, err error) {
	if _, err := from.Store.CheckDump(ctx); err != nil {
		return m, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return m, err
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		return m, errors.Join(err, notEmpty(folder, entries))
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	m = Manifest{Format: format, CreatedAt: from.Now.UTC().Format(time.RFC3339), Version: from.Version, SecretKeys: []string{}}
	sealing, err := from.Store.Sealing(ctx, 0)
	if err != nil {
		return m, err
	}
	for _, key := range sealing.Keys {
		if key.Connections > 0 && key.IsKnown() {
			m.SecretKeys = append(m.SecretKeys, key.ID.String())
		}
	}
	w := &writer{root: root}
	if err := w.database(ctx, from.Store, &m); err != nil {
		return m, err
	}
	if err := w.objects(ctx, from.Objects, &m); err != nil {
		return m, err
	}
	return m, w.finish(&m)
}

func notEmpty(folder string, entries []fs.DirEntry) error {
	if len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("%s is not empty: name a new folder for each backup", folder)
}

// A writer writes the files of a backup, and remembers their checksums.
type writer struct {
	root *os.Root

	mu   sync.Mutex // guards sums
	sums []sum
}

type sum struct {
	name string
	hash string
}

// create runs write with a new file, which only its owner can read.
func (w *writer) create(name string, write func(io.Writer) error) error {
	file, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	checksum := sha256.New()
	err = write(io.MultiWriter(file, checksum))
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums = append(w.sums, sum{name, hexOf(checksum)})
	return nil
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func (w *writer) database(ctx context.Context, store *sqlstore.Store, m *Manifest) error {
	return w.create(databaseFile, func(out io.Writer) error {
		packed := gzip.NewWriter(out)
		dump, err := store.Dump(ctx, packed)
		m.Database = Database{Kind: dump.Kind, Schema: dump.Schema, Rows: dump.Rows}
		return errors.Join(err, packed.Close())
	})
}

// objects copies all objects. One that is deleted meanwhile is left out.
func (w *writer) objects(ctx context.Context, from bucket.Bucket, m *Manifest) error {
	listed, err := from.List(ctx, "")
	if err != nil {
		return err
	}
	copying, ctx := errgroup.WithContext(ctx) // the first failure ends the copying
	copying.SetLimit(parallel)
	var mu sync.Mutex
	for _, object := range listed {
		copying.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			data, _, err := from.Get(ctx, object.Name)
			if errors.Is(err, bucket.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			name := path.Join(objectFolder, object.Name)
			if err := w.root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o700); err != nil {
				return err
			}
			mu.Lock()
			m.Archive.Objects++
			m.Archive.Bytes += int64(len(data))
			mu.Unlock()
			return w.create(name, func(out io.Writer) error {
				_, err := out.Write(data)
				return err
			})
		})
	}
	return copying.Wait()
}

// finish writes the checksums, and then the manifest.
func (w *writer) finish(m *Manifest) error {
	sums := slices.SortedFunc(slices.Values(w.sums), func(a, b sum) int { return cmp.Compare(a.name, b.name) })
	err := w.create(sumsFile, func(out io.Writer) error {
		var text strings.Builder
		for _, s := range sums {
			text.WriteString(s.hash + "  " + s.name + "\n")
		}
		_, err := io.WriteString(out, text.String())
		return err
	})
	if err != nil {
		return err
	}
	m.Checksums = w.sums[len(w.sums)-1].hash
	return w.create(manifestFile, func(out io.Writer) error {
		text := json.NewEncoder(out)
		text.SetIndent("", "  ")
		return text.Encode(m)
	})
}
