package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy"
	"sara/proxy/upstream"
)

type serveCommand struct {
	fileSetting
	addressSettings
	edgeSettings
	storeSettings
	archiveSettings
	upstreamSettings
	keySettings
	planSettings
	replicaSettings
	cacheSettings
	collectSettings
	inspectSettings
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

// serve opens everything, serves, and closes it in the opposite order.
func (c *serveCommand) serve(ctx context.Context, con *console) (err error) {
	log, err := c.logSettings.open(con.stderr)
	if err != nil {
		return err
	}
	plans, err := c.plans()
	if err != nil {
		return err
	}
	store, err := c.storeSettings.open(ctx)
	if store != nil {
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	if err := errors.Join(err, c.checkNeighbours(ctx, log.Logger)); err != nil {
		return err
	}
	if err := c.checkCredentials(ctx, store, log.Logger); err != nil {
		return err
	}
	if err := warnOfPlans(ctx, store, plans, log.Logger); err != nil {
		return err
	}
	registry := newRegistry()
	replicas, err := c.replicas()
	if err != nil {
		return err
	}
	cacheBytes, err := c.cacheBytes()
	if err != nil {
		return err
	}
	counted, err := c.counters(ctx, store, replicas, log.Logger, registry, con.now)
	if err != nil {
		return err
	}
	defer counted.close()
	gateway, err := upstream.New(upstream.Config{BaseURL: c.UpstreamURL, TokenURL: c.OAuthTokenURL, Connections: store, Redis: counted.redis,
		Log: log.Logger, Registerer: registry})
	if err != nil {
		return wrongSetting("SARA_UPSTREAM_URL", "%v", err)
	}
	defer gateway.Close()
	history, err := c.history(con.now)
	if err != nil {
		return err
	}
	traces, err := traceEnvironment(os.Getenv).open(ctx, log.Logger)
	if err != nil {
		return err
	}
	config := proxy.Config{
		Store: store, Upstream: gateway, History: history, Plans: plans, Budget: counted.budget, Degraded: counted.degraded,
		CacheBytes: cacheBytes, Redis: counted.redis,
		KeyPrefix: c.KeyPrefix, DocsURL: c.DocsURL, TrustedProxyHeader: c.TrustedProxyHeader,
		Version: buildVersion().Version, Log: log.Logger, Access: log.access, AccessFormat: log.format, AccessSample: log.sample, Registry: registry, Now: con.now,
	}
	if traces != nil {
		config.Traces, config.Propagator = traces.provider, traces.propagator
		defer traces.close(ctx)
	}
	return c.listenAndServe(ctx, con, counted.changes, history, config)
}

// listenAndServe adds to the configuration what only the listeners know.
func (c *serveCommand) listenAndServe(ctx context.Context, con *console, changes changes, history *archive.History, config proxy.Config) error {
	delay, err := c.shutdownDelay()
	if err != nil {
		return err
	}
	public, admin, err := c.openListeners()
	if err != nil {
		return err
	}
	defer closeListeners(public, admin)
	config.BaseURL = c.baseURL(public.Addr().String())
	if err := registerStatus(config); err != nil {
		return err
	}
	server, err := proxy.New(config)
	if err != nil {
		return err
	}
	collecting, err := c.collectSettings.daily(config, history, server)
	if err != nil {
		return err
	}
	inspecting, err := c.inspectSettings.daily(config, history, server)
	if err != nil {
		return err
	}
	config.Log.InfoContext(ctx, "starting", slog.String("version", config.Version), c.logged())
	s := service{server: server, background: background{changes: changes, daily: []func(context.Context){collecting, inspecting}}, public: public, admin: admin, delay: delay, log: config.Log}
	return s.run(ctx, func(context.Context) error {
		_, err := fmt.Fprintf(con.stdout, "listening on http://%s\nadmin listening on http://%s\n", public.Addr(), admin.Addr())
		return err
	})
}

// checkCredentials makes sure that the secret key is the one of the stored credentials. A few that it does not open are
// told of, and their properties are not served; if it opens none, it is the wrong one.
func (c *serveCommand) checkCredentials(ctx context.Context, store *sqlstore.Store, log *slog.Logger) error {
	connections, err := store.Connections(ctx)
	if err != nil {
		return err
	}
	sealed := sealedCredentials(ctx, store, connections)
	if len(sealed) > 0 && len(sealed) == len(connections) {
		return sealed[0]
	}
	for _, err := range sealed {
		log.WarnContext(ctx, "a connection cannot be used", slog.Any("error", err))
	}
	return nil
}

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
