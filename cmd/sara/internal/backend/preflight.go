package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
)

// CheckDatabase reports whether the database can be used, and whether the secret keys open the credentials in it. A schema of a newer
// version is an error, as when serving begins. A database whose connections cannot be read may be new or of an older version: that is a
// note, and no error.
func CheckDatabase(ctx context.Context, s settings.Store) (note string, err error) {
	if file := s.DatabaseURL.File; file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			_, keysErr := s.Keyring()
			return "", errors.Join(keysErr, checkWritable("SARA_DATABASE_URL", file))
		}
	}
	store, err := ConnectDatabase(ctx, s)
	if err != nil {
		return "", err
	}
	if current, known, err := store.SchemaVersion(ctx); err == nil && current > known {
		newer := databaseError(s.DatabaseURL, &sqlstore.SchemaError{Current: current, Known: known})
		return "", errors.Join(newer, store.Close())
	}
	if _, err := store.Connections(ctx); err != nil {
		return fmt.Sprintf("the database answers, but its connections cannot be read (%v).\n"+
			"If it is new or of an older version, that is fine: serve migrates it", err), store.Close()
	}
	sealing, err := store.Sealing(ctx, NamedConnections)
	return PreviousKeysNote(sealing), errors.Join(append(SealingErrors(sealing), err, store.Close())...)
}
