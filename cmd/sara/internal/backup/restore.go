package backup

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"sara/archive/bucket"
	"sara/archive/sqlstore"
)

// A Backup is a folder with a whole backup, whose files have their checksums.
type Backup struct {
	Manifest
	root    *os.Root
	objects []string // their names in the bucket
}

// Open opens a backup and checks all its files. The caller closes it.
func Open(ctx context.Context, folder string) (*Backup, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the backup: %w", err)
	}
	b := &Backup{root: root}
	if err := b.check(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", folder, err), root.Close())
	}
	return b, nil
}

// Close releases the folder.
func (b *Backup) Close() error { return b.root.Close() }

func (b *Backup) check(ctx context.Context) error {
	text, err := b.root.ReadFile(manifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("it has no manifest.json, so it is not a backup, or one that was interrupted")
	}
	if err == nil {
		err = json.Unmarshal(text, &b.Manifest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", manifestFile, err)
	}
	if b.Format != format {
		return fmt.Errorf("it has the format %d, and this program knows only %d: use the version of sara that wrote it, %s", b.Format, format, b.Version)
	}
	if err := b.checkFile(sumsFile, b.Checksums); err != nil {
		return err
	}
	sums, err := b.root.Open(sumsFile)
	if err != nil {
		return err
	}
	defer func() { _ = sums.Close() }() // it was only read
	lines := bufio.NewScanner(sums)
	var checking errgroup.Group
	checking.SetLimit(parallel)
	for lines.Scan() {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		if object, ok := strings.CutPrefix(name, objectFolder+"/"); ok {
			b.objects = append(b.objects, object)
		}
		checking.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return b.checkFile(name, want)
		})
	}
	err = errors.Join(lines.Err(), checking.Wait())
	if err == nil && len(b.objects) != b.Archive.Objects {
		err = fmt.Errorf("it has %s of the archive, and the manifest names %d", english.Plural(len(b.objects), "object", ""), b.Archive.Objects)
	}
	return err
}

// checkFile returns an error if a file does not have its checksum.
func (b *Backup) checkFile(name, want string) error {
	file, err := b.root.Open(name)
	if err != nil {
		return err
	}
	checksum := sha256.New()
	_, err = io.Copy(checksum, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if got := hexOf(checksum); got != want {
		return fmt.Errorf("%s is damaged: it has the SHA-256 checksum %s, not %s", name, got, want)
	}
	return nil
}

// RestoreDatabase replaces everything in a database. No server may use it meanwhile.
func (b *Backup) RestoreDatabase(ctx context.Context, store *sqlstore.Store) error {
	file, err := b.root.Open(databaseFile)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	return store.Load(ctx, unpacked, b.Database.Schema)
}

// RestoreObjects writes all objects of the archive, over those of the same names. Others stay.
func (b *Backup) RestoreObjects(ctx context.Context, to bucket.Bucket) error {
	listed, err := to.List(ctx, "")
	if err != nil {
		return err
	}
	revisions := make(map[string]string, len(listed))
	for _, object := range listed {
		revisions[object.Name] = object.Revision
	}
	copying, ctx := errgroup.WithContext(ctx) // the first failure ends the copying
	copying.SetLimit(parallel)
	for _, name := range b.objects {
		copying.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			data, err := b.root.ReadFile(objectFolder + "/" + name)
			if err == nil {
				_, err = to.Put(ctx, name, data, revisions[name])
			}
			return err
		})
	}
	return copying.Wait()
}
