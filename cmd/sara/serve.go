package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy"
	"sara/proxy/upstream"
)

type serveCommand struct {
	fileSetting
	addressSettings
	edgeSettings
	storeSettings
	upstreamSettings
	keySettings
	planSettings
	logSettings
	Check bool `help:"Check the settings and the database, print the settings, and exit."`
}

func (c *serveCommand) Run(ctx context.Context, con *console) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Check {
		return c.check(ctx, con)
	}
	return c.serve(ctx, con)
}

// validate reports everything that is wrong with the settings by themselves.
func (c *serveCommand) validate() error {
	_, keyErr := c.secretKey()
	_, plansErr := c.plans()
	errs := append(c.addressSettings.check(), c.edgeSettings.check()...)
	errs = append(errs, c.storeSettings.check(), keyErr)
	errs = append(errs, c.upstreamSettings.check()...)
	errs = append(errs, c.keySettings.check(), plansErr)
	return errors.Join(append(errs, c.logSettings.check()...)...)
}

// check looks at what the settings lead to, and changes nothing.
func (c *serveCommand) check(ctx context.Context, con *console) error {
	if err := c.checkDatabase(ctx, con); err != nil {
		return err
	}
	if err := printTable(con.stdout, []string{"SETTING", "VALUE"}, c.effective()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(con.stdout, "\nThe settings are good.")
	return err
}

func (c *serveCommand) checkDatabase(ctx context.Context, con *console) error {
	if path, ok := strings.CutPrefix(c.DatabaseURL, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return checkWritable(path)
		}
	}
	key, err := c.secretKey()
	if err != nil {
		return err
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: c.DatabaseURL, SecretKey: key})
	if err != nil {
		return wrongSetting("SARA_DATABASE_URL", "%s: %v", maskURL(c.DatabaseURL), err)
	}
	err = checkConnections(ctx, store)
	if unread := (*unreadError)(nil); errors.As(err, &unread) {
		_, err = fmt.Fprintf(con.stdout, "Note: %v. If it is new or of an older version, that is fine: serve brings it up to date.\n\n", unread)
	}
	return errors.Join(err, store.Close())
}

// checkWritable reports whether a database file can be made at path, without making it: its owner has to be whoever
// serves, not whoever checks.
func checkWritable(path string) error {
	folder := filepath.Dir(path)
	for {
		_, err := os.Stat(folder)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return wrongSetting("SARA_DATABASE_URL", "the folder of %s cannot be made: %v", path, err)
		}
		folder = filepath.Dir(folder)
	}
	probe, err := os.CreateTemp(folder, "sara-check-")
	if err != nil {
		return wrongSetting("SARA_DATABASE_URL", "%s cannot be made: %v", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// An unreadError says that a database answers but does not hold what this version expects.
type unreadError struct{ cause error }

func (e *unreadError) Error() string {
	return fmt.Sprintf("the database answers, but its connections cannot be read (%v)", e.cause)
}

// checkConnections makes sure that the secret key opens every stored credential.
func checkConnections(ctx context.Context, store *sqlstore.Store) error {
	connections, err := store.Connections(ctx)
	if err != nil {
		return &unreadError{err}
	}
	for _, c := range connections {
		_, _, err := store.Credentials(ctx, c.ID)
		switch {
		case errors.Is(err, sqlstore.ErrNoSecretKey), errors.Is(err, sqlstore.ErrWrongSecretKey):
			return wrongSetting("SARA_SECRET_KEY", "the credentials of connection %q cannot be read: %v", c.Name, err)
		case err != nil:
			return err
		}
	}
	return nil
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
		{"SARA_BASE_URL", orDefault(c.BaseURL, "from the listener")},
		{"SARA_DOCS_URL", orDefault(c.DocsURL, "the served OpenAPI document")},
		{"SARA_TRUSTED_PROXY_HEADER", orDefault(c.TrustedProxyHeader, "none: the peer is the client")},
		{"SARA_DATABASE_URL", maskURL(c.DatabaseURL)},
		{"SARA_SECRET_KEY", secret},
		{"SARA_UPSTREAM_URL", c.UpstreamURL},
		{"SARA_OAUTH_TOKEN_URL", c.OAuthTokenURL},
		{"SARA_KEY_PREFIX", c.KeyPrefix},
		{"SARA_PLANS_FILE", orDefault(c.PlansFile, "built in")},
		{"SARA_SHUTDOWN_DELAY", c.ShutdownDelay},
		{"SARA_LOG_LEVEL", c.LogLevel},
		{"SARA_LOG_FORMAT", c.LogFormat},
	}
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// serve opens everything, serves, and closes it in the opposite order.
func (c *serveCommand) serve(ctx context.Context, con *console) (err error) {
	log, err := c.logger(con.stderr)
	if err != nil {
		return err
	}
	plans, err := c.plans()
	if err != nil {
		return err
	}
	delay, err := c.shutdownDelay()
	if err != nil {
		return err
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := checkConnections(ctx, store); err != nil {
		return err
	}
	registry := newRegistry()
	client, err := upstream.New(upstream.Config{BaseURL: c.UpstreamURL, TokenURL: c.OAuthTokenURL, Registerer: registry})
	if err != nil {
		return wrongSetting("SARA_UPSTREAM_URL", "%v", err)
	}
	defer client.Close()
	public, err := listen("--listen", "SARA_LISTEN", c.Listen)
	if err != nil {
		return err
	}
	defer closeListeners(public)
	admin, err := listen("--admin-listen", "SARA_ADMIN_LISTEN", c.AdminListen)
	if err != nil {
		return err
	}
	defer closeListeners(admin)
	server, err := proxy.New(proxy.Config{Store: store, Upstream: client, Plans: plans, KeyPrefix: c.KeyPrefix,
		BaseURL: c.baseURL(public.Addr().String()), DocsURL: c.DocsURL, TrustedProxyHeader: c.TrustedProxyHeader,
		Version: buildVersion().Version, Log: log, Registry: registry, Now: con.now})
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "starting", slog.String("version", buildVersion().Version), c.logged())
	s := service{server: server, public: public, admin: admin, delay: delay, log: log}
	return s.run(ctx, func(context.Context) error {
		_, err := fmt.Fprintf(con.stdout, "listening on http://%s\nadmin listening on http://%s\n", public.Addr(), admin.Addr())
		return err
	})
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

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// keyIssueDefaults is how keys are made without settings.
func keyIssueDefaults() keyIssue { return keyIssue{prefix: "sara", plans: policy.DefaultPlans()} }
