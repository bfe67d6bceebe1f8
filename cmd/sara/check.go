package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"sara/archive/sqlstore"
	"sara/policy"
)

// validate reports everything that is wrong with the settings by themselves.
func (c *serveCommand) validate() error {
	_, keyErr := c.secretKey()
	_, plansErr := c.plans()
	_, replicasErr := c.replicas()
	_, cacheErr := c.cacheBytes()
	errs := append(c.addressSettings.check(), c.edgeSettings.check()...)
	errs = append(errs, c.storeSettings.check(), c.archiveSettings.check(), keyErr, replicasErr, cacheErr, c.checkListeners())
	errs = append(errs, c.upstreamSettings.check()...)
	errs = append(errs, traceEnvironment(os.Getenv).check(), c.keySettings.check(), plansErr, c.collectSettings.check(), c.inspectSettings.check())
	return errors.Join(append(errs, c.logSettings.check()...)...)
}

// check looks at what the settings lead to, and changes nothing.
func (c *serveCommand) check(ctx context.Context, con *console) error {
	if err := errors.Join(c.checkDatabase(ctx, con), c.checkArchive(ctx), c.checkRedis(ctx)); err != nil {
		return err
	}
	replicas, err := c.replicas()
	if note := c.aloneNote(replicas); note != "" {
		_, printErr := fmt.Fprintf(con.stdout, "Note: %s.\n\n", note)
		err = errors.Join(err, printErr)
	}
	if err := errors.Join(err, printTable(con.stdout, []string{"SETTING", "VALUE"}, c.effective())); err != nil {
		return err
	}
	_, err = fmt.Fprintln(con.stdout, "\nThe settings are good.")
	return err
}

func (c *serveCommand) checkDatabase(ctx context.Context, con *console) error {
	if path, ok := strings.CutPrefix(c.DatabaseURL, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return checkWritable("SARA_DATABASE_URL", path)
		}
	}
	store, err := c.connect(ctx)
	if err != nil {
		return err
	}
	connections, err := store.Connections(ctx)
	if err != nil {
		// Perhaps there is nothing in it yet; only whoever migrates it finds out.
		_, err = fmt.Fprintf(con.stdout, "Note: the database answers, but its connections cannot be read (%v).\n"+
			"If it is new or of an older version, that is fine: serve brings it up to date.\n\n", err)
		return errors.Join(err, store.Close())
	}
	return errors.Join(append(sealedCredentials(ctx, store, connections), store.Close())...)
}

// sealedCredentials returns why credentials cannot be read, for each connection whose cannot.
func sealedCredentials(ctx context.Context, store *sqlstore.Store, connections []sqlstore.Connection) []error {
	var errs []error
	for _, c := range connections {
		_, _, err := store.Credentials(ctx, c.ID)
		if errors.Is(err, sqlstore.ErrNoSecretKey) {
			err = wrongSetting("SARA_SECRET_KEY", "connection %q: no secret key: set it to the one that the credentials were stored under, not to a new one", c.Name)
		} else if errors.Is(err, sqlstore.ErrWrongSecretKey) {
			err = wrongSetting("SARA_SECRET_KEY", "connection %q: %v", c.Name, err)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkWritable reports whether the file or folder that a setting names can be made at path, without making it: its owner
// has to be whoever serves, not whoever checks.
func checkWritable(setting, path string) error {
	folder := filepath.Dir(path)
	for {
		_, err := os.Stat(folder)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return wrongSetting(setting, "the folder of %s cannot be made: %v", path, err)
		}
		folder = filepath.Dir(folder)
	}
	probe, err := os.CreateTemp(folder, "sara-check-")
	if err != nil {
		return wrongSetting(setting, "%s cannot be made: %v", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// effective returns the settings in force by name, without what is secret in them.
func (c *serveCommand) effective() [][]string {
	secret := "not set: no connection can be used"
	if c.SecretKey != "" {
		secret = "set"
	}
	return [][]string{
		{"SARA_LISTEN", c.Listen},
		{"SARA_ADMIN_LISTEN", c.AdminListen},
		{"SARA_BASE_URL", cmp.Or(c.BaseURL, "from the listener")},
		{"SARA_DOCS_URL", cmp.Or(c.DocsURL, "the reference at /docs")},
		{"SARA_TRUSTED_PROXY_HEADER", cmp.Or(c.TrustedProxyHeader, "none: the peer is the client")},
		{"SARA_DATABASE_URL", maskURL(c.DatabaseURL)},
		{"SARA_SECRET_KEY", secret},
		{"SARA_ARCHIVE_URL", c.location()},
		{"SARA_REDIS_URL", c.shownRedis()},
		{"SARA_REPLICAS", c.Replicas},
		{"SARA_CACHE_BYTES", c.CacheBytes},
		{"SARA_UPSTREAM_URL", c.UpstreamURL},
		{"SARA_OAUTH_TOKEN_URL", c.OAuthTokenURL},
		{"SARA_KEY_PREFIX", c.KeyPrefix},
		{"SARA_COLLECT", c.Collect},
		{"SARA_COLLECT_RATE", c.CollectRate},
		{"SARA_INSPECT", c.Inspect},
		{"SARA_SITEMAP_ALLOW_LOOPBACK", c.SitemapAllowLoopback},
		{"SARA_PLANS_FILE", cmp.Or(c.PlansFile, "built in")},
		{"SARA_SHUTDOWN_DELAY", c.ShutdownDelay},
		{"SARA_LOG_LEVEL", c.LogLevel},
		{"SARA_LOG_FORMAT", c.LogFormat},
		{"SARA_ACCESS_LOG_SAMPLE", c.AccessLogSample},
	}
}

// shownRedis is what can be shown of the Redis URL.
func (s storeSettings) shownRedis() string {
	if s.RedisURL == "" {
		return "none: counted in memory, for one process"
	}
	return policy.RedisAddress(s.RedisURL)
}

// logged is the settings in force as one attribute of the log.
func (c *serveCommand) logged() slog.Attr {
	var settings []any
	for _, setting := range c.effective() {
		name := strings.ToLower(strings.TrimPrefix(setting[0], "SARA_"))
		settings = append(settings, slog.String(name, setting[1]))
	}
	return slog.Group("settings", settings...)
}
