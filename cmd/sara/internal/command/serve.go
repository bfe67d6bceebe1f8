package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/internal/status"
	"sara/cmd/sara/internal/traces"
	"sara/proxy"
	"sara/proxy/cpubound"
	"sara/proxy/upstream"
)

type serveCommand struct {
	settings.File
	settings.Public
	settings.Admin
	settings.Edge
	settings.Store
	settings.SharedRows
	settings.Archive
	settings.Capacity
	settings.Upstream
	settings.Keys
	settings.Collector
	settings.Inspector
	settings.Plans
	settings.Anomalies
	settings.Shutdown
	settings.Log
	Check  bool            `help:"Check the settings, the database, Redis and the archive, print the settings, and exit."`
	Traces settings.Traces `kong:"-"` // from the environment only
	Notify string          `kong:"-"` // the socket of systemd, from the environment only
}

var _ settings.Checker = (*serveCommand)(nil)

// CheckSettings implements settings.Checker.
func (c *serveCommand) CheckSettings(getenv func(string) string) (err error) {
	c.Notify = getenv("NOTIFY_SOCKET")
	c.Traces, err = settings.ReadTraces(getenv)
	return errors.Join(settings.CheckPorts(c.Listen, c.AdminListen), c.SharedRows.Check(c.RedisURL), err)
}

func (c *serveCommand) Run(ctx context.Context, con *console.Console, loader *settings.Loader) error {
	if c.Check {
		return c.check(ctx, con, loader.Effective())
	}
	return c.serve(ctx, con, loader.Effective())
}

// check runs all preflight checks, and prints the settings in force.
func (c *serveCommand) check(ctx context.Context, con *console.Console, effective [][]string) error {
	notes, err := backend.CheckDatabase(ctx, c.Store)
	if err := errors.Join(err, backend.CheckArchive(ctx, c.ArchiveURL), errors.Join(c.checkRedis(ctx)...)); err != nil {
		return err
	}
	notes = append(notes, service.UnsharedNote(c.RedisURL, c.Replicas.N))
	for _, note := range append(notes, c.notes(ctx)...) {
		if note != "" {
			_, printErr := fmt.Fprintf(con.Stdout, "Note: %s.\n\n", note)
			err = errors.Join(err, printErr)
		}
	}
	if err := errors.Join(err, console.PrintTable(con.Stdout, []string{"SETTING", "VALUE"}, effective)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(con.Stdout, "\nConfiguration OK.")
	return err
}

// notes returns what is risky about the settings, although it works; an empty text is none.
func (c *serveCommand) notes(ctx context.Context) []string {
	return []string{backend.RedisNote(ctx, c.RedisURL), backend.SealNote(c.Store, c.RedisURL), backend.ModeNote(c.DatabaseURL, c.ArchiveURL)}
}

// checkRedis reports whether the Redis of the counters answers, and that of the rows.
func (c *serveCommand) checkRedis(ctx context.Context) []error {
	errs := []error{backend.CheckRedis(ctx, c.RedisURL)}
	if rows, separate := c.SharedRows.Location(c.RedisURL); separate {
		errs = append(errs, backend.CheckRedis(ctx, rows))
	}
	return errs
}

// serve opens everything, serves, and closes it in the opposite order.
func (c *serveCommand) serve(ctx context.Context, con *console.Console, effective [][]string) (err error) {
	registry := service.NewRegistry()
	lines := service.OpenBacklog(console.Raw(con.Stderr), registry)
	defer lines.Close()
	log := lines.Logs(c.Log)
	plans := c.PlansFile.Table()
	database, err := c.openDatabase(ctx, plans, log.Logger)
	store := database.store
	if store != nil {
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	if err := errors.Join(err, c.preflight(ctx, log.Logger)); err != nil {
		return err
	}
	budgets, err := service.OpenBudgets(ctx, service.BudgetConfig{Location: c.RedisURL, Rows: c.SharedRows, RowBytes: c.RedisCacheBytes.Bytes,
		Replicas: c.Replicas.N, Store: store, Log: log.Logger, Registry: registry, Now: con.Now})
	if err != nil {
		return err
	}
	defer budgets.Close()
	slots := cpubound.New()
	keys, err := c.Keyring()
	if err != nil {
		return err
	}
	snapshots, err := c.openSnapshots(budgets.Redis, keys, con.Now, log.Logger, registry)
	if err != nil {
		return err
	}
	gateway, err := backend.OpenGateway(c.Upstream, upstream.Config{Connections: store, Slots: slots, Redis: budgets.Redis, Keyring: keys,
		Log: log.Logger, Registerer: registry})
	if err != nil {
		return err
	}
	defer gateway.Close()
	history, err := backend.WatchArchive(c.Archive, con.Now, registry, log.Logger)
	if err != nil {
		return err
	}
	spans, err := traces.Open(ctx, c.Traces, con.Version, log.Logger)
	if err != nil {
		return err
	}
	config := proxy.Config{
		Process: proxy.Process{Version: con.Version, Log: log.Logger, Registry: registry, Now: con.Now},
		Store:   store, Admission: proxy.AdmissionConfig{Plans: plans, Budget: budgets.Budget, KeyPrefix: c.KeyPrefix.String()},
		Reports: proxy.ReportsConfig{Upstream: gateway, History: history, Anomalies: c.AnomaliesFile.List()},
		Health: proxy.HealthConfig{Degraded: budgets.Degraded, ArchiveAway: history.Store.Away, Snapshots: snapshots,
			Degradations: budgets.Degradations},
		Capacity: proxy.Capacity{MemoryLimit: service.MemoryLimit(), OpenFiles: service.OpenFiles(), Slots: slots},
		Cache:    proxy.CacheConfig{Bytes: c.CacheBytes.Bytes, Rows: budgets.Rows, Keyring: keys},
		Public:   proxy.PublicConfig{DocsURL: c.DocsURL.String()}, TrustedProxyHeader: c.TrustedProxyHeader.String(), CORSOrigins: c.CORSOrigins.List,
		AccessLog: log.Access, Profiles: c.Pprof.On,
	}
	service.NoteClock(ctx, c.Clock, &config)
	if spans != nil {
		config.Tracing = proxy.TracingConfig{Provider: spans.Provider, Propagator: spans.Propagator}
		defer spans.Close(ctx)
	}
	return c.listenAndServe(ctx, con, opened{config, database, budgets, history, effective})
}

// opened holds what serve opens before it listens.
type opened struct {
	config   proxy.Config // without what depends on the listeners
	database servedDatabase
	budgets  service.Budgets
	history  *backend.WatchedArchive
	settings [][]string // in force
}

// listenAndServe opens the listeners, and serves with the work in the background.
func (c *serveCommand) listenAndServe(ctx context.Context, con *console.Console, o opened) error {
	public, admin, err := c.openListeners()
	if err != nil {
		return err
	}
	defer service.Close(public, admin)
	config := o.config
	config.Public.BaseURL = c.BaseURL.Or(settings.LocalURL(public.Addr().String()))
	counted, err := status.Register(&config, o.budgets.Redis)
	if err != nil {
		return err
	}
	server, err := proxy.New(config)
	if err != nil {
		return err
	}
	collecting, err := dailyCollection(c.Collector, config, o.history.History, server)
	if err != nil {
		return err
	}
	inspecting, err := dailyInspection(c.Inspector, config, o.budgets.Redis, o.history.History, server)
	if err != nil {
		return err
	}
	warnOfCacheSize(ctx, config)
	config.Log.InfoContext(ctx, "memory", slog.Int64("limit", config.Capacity.MemoryLimit), slog.Int64("cache", config.Cache.Bytes),
		slog.Int64("fills", config.Capacity.Fills()))
	config.Log.InfoContext(ctx, "starting", slog.String("version", config.Version), loggedSettings(o.settings))
	background := service.Background{
		Invalidations: o.budgets.Invalidations,
		Jobs:          []func(context.Context){o.history.Store.Watch, o.database.await, collecting, inspecting, counted.Watch, server.KeepSnapshots},
		Serving: []func(context.Context){
			func(ctx context.Context) { service.RetainTokens(ctx, config.Store, config.Reports.Upstream) },
			func(ctx context.Context) { service.RecordKeyUses(ctx, server, config.Store, config.Log) },
		},
	}
	s := service.Service{Server: server, Background: background, Public: public, Admin: admin,
		Delay: c.ShutdownDelay.Duration, Log: config.Log}
	return s.Run(ctx, func(ctx context.Context) error {
		if err := service.Notify(ctx, c.Notify); err != nil {
			config.Log.WarnContext(ctx, "the service manager does not know that the server listens", slog.Any("error", err))
		}
		_, err := fmt.Fprintf(con.Stdout, "listening on http://%s\nadmin listening on http://%s\n", public.Addr(), admin.Addr())
		return err
	})
}

// warnOfCacheSize logs a cache that leaves too little of the memory limit for everything else.
func warnOfCacheSize(ctx context.Context, config proxy.Config) {
	if limit := config.Capacity.MemoryLimit; limit > 0 && config.Cache.Bytes > limit/2 {
		config.Log.WarnContext(ctx, "SARA_CACHE_BYTES is more than half of the memory limit: lower it, or raise GOMEMLIMIT and the limit of the container",
			slog.Int64("cache_bytes", config.Cache.Bytes), slog.Int64("memory_limit", limit))
	}
}

// openListeners opens both listeners, or reports the problems of both.
func (c *serveCommand) openListeners() (public, admin net.Listener, err error) {
	public, err = service.Listen("SARA_LISTEN", c.Listen.String())
	admin, adminErr := service.Listen("SARA_ADMIN_LISTEN", c.AdminListen.String())
	if err = errors.Join(err, adminErr); err != nil {
		service.Close(public, admin)
		return nil, nil, err
	}
	return public, admin, nil
}

// preflight returns an error if Redis or the archive refuses, because waiting does not fix that. If one does not answer, that
// is logged: the server starts without it, and uses it as soon as it answers.
func (c *serveCommand) preflight(ctx context.Context, log *slog.Logger) error {
	errs := c.checkRedis(ctx)
	for _, note := range c.notes(ctx) {
		if note != "" {
			log.WarnContext(ctx, note)
		}
	}
	if c.Collect.On {
		errs = append(errs, backend.CheckArchive(ctx, c.ArchiveURL))
	}
	var refused []error
	for _, err := range errs {
		if errors.As(err, new(*backend.UnavailableError)) {
			log.WarnContext(ctx, "starting although a server does not answer", slog.Any("error", err))
			continue
		}
		refused = append(refused, err)
	}
	return errors.Join(refused...)
}

// loggedSettings returns the settings in force as one attribute.
func loggedSettings(effective [][]string) slog.Attr {
	var attributes []any
	for _, setting := range effective {
		name := strings.ToLower(strings.TrimPrefix(setting[0], "SARA_"))
		attributes = append(attributes, slog.String(name, setting[1]))
	}
	return slog.Group("settings", attributes...)
}
