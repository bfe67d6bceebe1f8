package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"sara/archive/bucket"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/backup"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

type backupCommand struct {
	storeFlags
	settings.Archive
	console.Output
	Folder string `arg:"" help:"New folder for the backup."`
}

// Help is the longer help of the command.
func (backupCommand) Help() string {
	return `It writes the database, as it is at one moment, and the objects of the archive, with a manifest and checksums (sha256sum -c SHA256SUMS).

The secret key, SARA_SECRET_KEY, is not in the backup: it encrypts the stored credentials of Search Console, which stay encrypted. Keep a copy of it elsewhere; without it, every connection needs new credentials. Nor are the settings, the plans file, and the counts in Redis.

Unlike most commands, it does not migrate the database: before an update, back up with the version that serves it.`
}

// backupRecord is a backup.
type backupRecord struct {
	Folder     string   `json:"folder"`
	CreatedAt  string   `json:"created_at"`
	Database   string   `json:"database"`
	Schema     int64    `json:"schema"`
	Rows       int      `json:"rows"`
	Objects    int      `json:"archive_objects"`
	Bytes      int64    `json:"archive_bytes"`
	SecretKeys []string `json:"secret_keys"` // ids of the keys that the credentials need
}

func recordOfBackup(folder string, m backup.Manifest) backupRecord {
	r := backupRecord{Folder: folder, CreatedAt: m.CreatedAt, Database: m.Database.Kind, Schema: m.Database.Schema,
		Objects: m.Archive.Objects, Bytes: m.Archive.Bytes, SecretKeys: m.SecretKeys}
	for _, rows := range m.Database.Rows {
		r.Rows += rows
	}
	return r
}

func (r backupRecord) Columns() []console.Column {
	return []console.Column{{"FOLDER", r.Folder}, {"CREATED", r.CreatedAt}, {"DATABASE", r.Database}, {"ROWS", strconv.Itoa(r.Rows)},
		{"OBJECTS", strconv.Itoa(r.Objects)}, {"SIZE", humanize.IBytes(uint64(r.Bytes))}, {"SECRET KEYS", strings.Join(r.SecretKeys, " ")}}
}

func (c *backupCommand) Run(ctx context.Context, con *console.Console) (err error) {
	// Not migrated: a backup before an update must be one that the version before can restore.
	store, err := backend.OpenDatabaseReadOnly(ctx, c.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	objects, err := c.objects()
	if err != nil {
		return err
	}
	m, err := backup.Write(ctx, c.Folder, backup.Source{Store: store, Objects: objects, Now: con.Now(), Version: con.Version})
	if err != nil {
		return fmt.Errorf("back up into %s: %w", c.Folder, err)
	}
	if len(m.SecretKeys) > 0 {
		con.Note("the secret key is not in the backup; its credentials need %s: keep a copy of it elsewhere",
			strings.Join(m.SecretKeys, " and "))
	}
	return console.One(c.Output, con.Stdout, recordOfBackup(c.Folder, m))
}

// objects opens the archive. A folder that does not exist has no objects, and is not created.
func (c *backupCommand) objects() (bucket.Bucket, error) {
	if folder := c.ArchiveURL.Folder; folder != "" {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return nil, settings.Errorf("SARA_ARCHIVE_URL", "there is no folder %s: name the archive of the server", folder)
		}
	}
	return backend.OpenBucket(c.Archive)
}

type restoreCommand struct {
	storeFlags
	settings.Archive
	console.Output
	Folder string `arg:"" help:"Folder of a backup."`
	Force  bool   `help:"Replace what the database and the archive have now."`
}

// Help is the longer help of the command.
func (restoreCommand) Help() string {
	return `Stop all servers first: it refuses a database that one uses, with --force too. It checks every file of the backup, and then replaces the database and writes the objects of the archive. The database may be of the other kind: a backup of SQLite can be restored into PostgreSQL.

Without --force it refuses if there are accounts or archived objects. With --force, a file of SQLite that is replaced stays beside the new one, and objects that are not in the backup stay; PostgreSQL's tables are dropped. If a newer version of sara made them, nothing is changed: restore into an empty database instead.

Set SARA_SECRET_KEY to the key that was in force when the backup was made: it is not in the backup. sara serve --check shows whether it opens the credentials.`
}

func (c *restoreCommand) Run(ctx context.Context, con *console.Console) (err error) {
	saved, err := backup.Open(ctx, c.Folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, saved.Close()) }()
	objects, err := backend.OpenBucket(c.Archive)
	if err != nil {
		return err
	}
	if !c.Force {
		listed, err := objects.List(ctx, "")
		if err != nil {
			return err
		}
		if len(listed) > 0 {
			return settings.Errorf("SARA_ARCHIVE_URL", "%s has %s: restore into an empty archive, or repeat the command with --force",
				c.ArchiveURL, english.Plural(len(listed), "object", ""))
		}
	}
	kept, err := backend.ReplaceDatabase(ctx, c.Store, c.Force, con.Now(), saved.RestoreDatabase)
	if err != nil {
		return err
	}
	if kept != "" {
		con.Note("the database that was replaced is %s", kept)
	}
	if err := saved.RestoreObjects(ctx, objects); err != nil {
		return fmt.Errorf("the database is restored, but the archive is not: repeat the command with --force: %w", err)
	}
	if err := console.One(c.Output, con.Stdout, recordOfBackup(c.Folder, saved.Manifest)); err != nil {
		return err
	}
	con.Next(c.Output, "check that the secret key opens the credentials, and the archive; then serve.",
		console.CommandLine("serve", "--check"), console.CommandLine("archive", "verify"), console.CommandLine("serve"))
	return nil
}
