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
// version is an error, as when serving begins. A schema that serving migrates is a note, and so is a database whose connections cannot be
// read: it may be new, or of a much older version.
func CheckDatabase(ctx context.Context, s settings.Store) (notes []string, err error) {
	if file := s.DatabaseURL.File; file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			_, keysErr := s.Keyring()
			if err := checkCreatable(file); err != nil {
				return nil, errors.Join(keysErr, databaseError(s.DatabaseURL, err))
			}
			return nil, keysErr
		}
	}
	if err := requireWritable(s.DatabaseURL); err != nil {
		return nil, err
	}
	store, err := ConnectDatabase(ctx, s, Notices{})
	if err != nil {
		return nil, err
	}
	current, known, err := store.SchemaVersion(ctx)
	if err == nil && current > known {
		newer := databaseError(s.DatabaseURL, &sqlstore.SchemaError{Current: current, Known: known})
		return nil, errors.Join(newer, store.Close())
	}
	if err == nil && 0 < current && current < known {
		notes = append(notes, fmt.Sprintf("serve migrates the database from schema version %d to %d, and the version before cannot start on it then: "+
			"back it up first, with that version", current, known))
	}
	if _, err := store.Connections(ctx); err != nil {
		return append(notes, fmt.Sprintf("the database answers, but its connections cannot be read (%v).\n"+
			"If it is new or of an older version, that is fine: serve migrates it", err)), store.Close()
	}
	sealing, err := store.Sealing(ctx, NamedConnections)
	return append(notes, PreviousKeysNote(sealing)), errors.Join(append(SealingErrors(sealing), err, store.Close())...)
}
