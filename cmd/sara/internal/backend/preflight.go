package backend

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
)

// CheckDatabase reports whether the database can be used, and whether the secret key opens the credentials in it. A database
// whose connections cannot be read may be new or of an older version; unread says why, and is no error.
func CheckDatabase(ctx context.Context, s settings.Store) (unread, err error) {
	if file := s.DatabaseURL.File; file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, checkWritable("SARA_DATABASE_URL", file)
		}
	}
	store, err := ConnectDatabase(ctx, s)
	if err != nil {
		return nil, err
	}
	connections, err := store.Connections(ctx)
	if err != nil {
		return err, store.Close()
	}
	return nil, errors.Join(append(SealedCredentials(ctx, store, connections), store.Close())...)
}

// SealedCredentials returns an error for each connection whose credentials the secret key does not open.
func SealedCredentials(ctx context.Context, store *sqlstore.Store, connections []sqlstore.Connection) []error {
	var errs []error
	for _, c := range connections {
		_, _, err := store.Credentials(ctx, c.ID)
		if errors.Is(err, sqlstore.ErrNoSecretKey) {
			err = settings.Errorf("SARA_SECRET_KEY", "connection %q: no secret key: set it to the key that the credentials were stored with, not to a new one", c.Name)
		} else if errors.Is(err, sqlstore.ErrWrongSecretKey) {
			err = settings.Errorf("SARA_SECRET_KEY", "connection %q: %v", c.Name, err)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
