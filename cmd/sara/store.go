package main

import (
	"context"
	"errors"
	"fmt"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
	"sara/translate"
)

// storeFlags is what every command that uses the database takes.
type storeFlags struct {
	fileSetting
	storeSettings
}

// connect opens the database as it is. The caller closes it.
func (s storeSettings) connect(ctx context.Context) (*sqlstore.Store, error) {
	key, err := s.secretKey()
	if err := errors.Join(err, s.check()); err != nil {
		return nil, err
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: s.DatabaseURL, SecretKey: key})
	if err != nil {
		return nil, s.wrongDatabase(err)
	}
	return store, nil
}

// open opens the database and brings its schema up to date. The caller closes it.
func (s storeSettings) open(ctx context.Context) (*sqlstore.Store, error) {
	store, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := store.Migrate(ctx); err != nil {
		return nil, errors.Join(s.wrongDatabase(err), store.Close())
	}
	return store, nil
}

// use runs do with the open database, and tells the servers if it has changed something.
func (s storeSettings) use(ctx context.Context, do func(*sqlstore.Store) error) error {
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	before := store.Generation()
	err = do(store)
	if store.Generation() != before {
		err = errors.Join(err, s.announce(ctx))
	}
	if closed := store.Close(); err == nil && closed != nil {
		return fmt.Errorf("close the database: %w", closed)
	}
	return err
}

// gateway returns the gateway to Search Console. The caller closes it.
func (s upstreamSettings) gateway(store *sqlstore.Store) (*upstream.Gateway, error) {
	if err := errors.Join(s.check()...); err != nil {
		return nil, err
	}
	gateway, err := upstream.New(upstream.Config{BaseURL: s.UpstreamURL, TokenURL: s.OAuthTokenURL, Connections: store})
	if err != nil {
		return nil, wrongSetting("SARA_UPSTREAM_URL", "%v", err)
	}
	return gateway, nil
}

// verifyFlags is what commands that ask Search Console first take besides.
type verifyFlags struct {
	storeFlags
	upstreamSettings
	NoVerify bool `help:"Do not ask Search Console first."`
}

// use runs do with a registrar that asks Search Console unless told not to.
func (f verifyFlags) use(ctx context.Context, do func(registrar) error) error {
	return f.storeSettings.use(ctx, func(store *sqlstore.Store) error {
		if f.NoVerify {
			return do(registrar{store: store})
		}
		gateway, err := f.gateway(store)
		if err != nil {
			return err
		}
		defer gateway.Close()
		return do(registrar{store: store, upstream: gateway})
	})
}

// date is a day on the command line, written YYYY-MM-DD.
type date struct{ translate.Date }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *date) UnmarshalText(text []byte) (err error) {
	d.Date, err = translate.ParseDate(string(text))
	return err
}

// day returns the day of an optional flag.
func (d *date) day() *translate.Date {
	if d == nil {
		return nil
	}
	return &d.Date
}
