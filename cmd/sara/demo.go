package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/internal/status"
	"sara/policy"
	"sara/proxy"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
)

type demoCommand struct {
	Listen         string         `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the public API, port 0 for any free one; ${default} if not set."`
	UpstreamListen string         `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the simulated Search Console; any free port if not set."`
	AdminListen    string         `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of /metrics, /livez, /readyz and pprof; any free port if not set."`
	LogLevel       settings.Level `type:"setting" default:"error" placeholder:"LEVEL" help:"debug, info, warn or error; default: ${default}."`
	JSON           bool           `name:"json" help:"Print one line of JSON when ready, for programs."`
}

// demoCacheBytes exceeds the size of all answers of the demo world.
const demoCacheBytes = 64 << 20

// demoAddresses are the open listeners of a demo.
type demoAddresses struct {
	public, upstream, admin net.Listener
}

func (c *demoCommand) listen() (a demoAddresses, err error) {
	if a.public, err = service.Listen("--listen", c.Listen); err != nil {
		return a, err
	}
	if a.upstream, err = service.Listen("--upstream-listen", c.UpstreamListen); err != nil {
		service.Close(a.public)
		return a, err
	}
	if a.admin, err = service.Listen("--admin-listen", c.AdminListen); err != nil {
		service.Close(a.public, a.upstream)
		return a, err
	}
	return a, nil
}

func (c *demoCommand) Run(ctx context.Context, con *console.Console) (err error) {
	addresses, err := c.listen()
	if err != nil {
		return err
	}
	defer service.Close(addresses.public, addresses.upstream, addresses.admin)
	folder, err := os.MkdirTemp("", "sara-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	cast, err := newCast(con.Now(), settings.LocalURL(addresses.upstream.Addr().String()))
	if err != nil {
		return err
	}
	simulator := &http.Server{Handler: gscsim.New(cast.simulation(con.Now)), ReadHeaderTimeout: 5 * time.Second}
	simulated := make(chan error, 1)
	go func() { simulated <- simulator.Serve(addresses.upstream) }()
	defer func() {
		err = errors.Join(err, simulator.Close())
		if served := <-simulated; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}()
	return c.serve(ctx, con, addresses, folder, cast)
}

// serve seeds the world in an empty folder, and serves it like the command serve.
func (c *demoCommand) serve(ctx context.Context, con *console.Console, a demoAddresses, folder string, cast *cast) (err error) {
	log := service.OpenLogs(con.Stderr, settings.Log{LogLevel: c.LogLevel, AccessLogSample: settings.Fraction{Value: 1}})
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	store, err := backend.OpenDatabase(ctx, settings.Store{DatabaseURL: settings.SQLite(filepath.Join(folder, "sara.db")), SecretKey: settings.SecretKey{Key: secret}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	registry := service.NewRegistry()
	gateway, err := upstream.New(upstream.Config{BaseURL: cast.url, TokenURL: cast.url + "/token", Connections: store, Log: log.Logger, Registerer: registry})
	if err != nil {
		return err
	}
	defer gateway.Close()
	issue := admin.KeyOptions{Prefix: "sara", Plans: policy.DefaultPlans()}
	world, err := seed(ctx, admin.Admin{Store: store, Upstream: gateway}, issue, cast, con.Now())
	if err != nil {
		return fmt.Errorf("seed the demo world: %w", err)
	}
	history, err := backend.OpenArchive(settings.Archive{ArchiveURL: settings.LocalArchive(filepath.Join(folder, "archive"))}, con.Now)
	if err != nil {
		return err
	}
	source := &searchConsole{gateway: gateway, store: store, plans: issue.Plans}
	if err := seedPast(ctx, cast, world, source, history, con.Now); err != nil {
		return err
	}
	world.BaseURL, world.AdminURL, world.UpstreamURL = settings.LocalURL(a.public.Addr().String()), settings.LocalURL(a.admin.Addr().String()), cast.url
	budgets, err := service.MemoryBudgets(ctx, store, log.Logger, con.Now)
	if err != nil {
		return err
	}
	defer budgets.Close()
	config := proxy.Config{
		Store: store, Upstream: gateway, Plans: issue.Plans, Budget: budgets.Budget,
		History: history, CacheBytes: demoCacheBytes, KeyPrefix: issue.Prefix, BaseURL: world.BaseURL,
		Version: buildVersion().Version, Log: log.Logger, Access: log.Access, AccessFormat: log.Format, AccessSample: log.Sample, Registry: registry, Now: con.Now,
	}
	if err := status.Register(config); err != nil {
		return err
	}
	server, err := proxy.New(config)
	if err != nil {
		return err
	}
	s := service.Service{Server: server, Public: a.public, Admin: a.admin, Log: log.Logger}
	return s.Run(ctx, func(ctx context.Context) error { return c.announce(ctx, con, world) })
}

// announce prints that the demo is ready, after its first request.
func (c *demoCommand) announce(ctx context.Context, con *console.Console, world *demoWorld) error {
	if err := world.meetDisconnected(ctx); err != nil {
		return err
	}
	if c.JSON {
		return console.PrintJSON(con.Stdout, world)
	}
	return world.print(con.Stdout)
}

// meetDisconnected requests figures of the property with revoked credentials, so that the service notices.
func (w *demoWorld) meetDisconnected(ctx context.Context) error {
	address := w.BaseURL + "/v1/properties/" + w.Properties["disconnected"].ID + "/summary"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+w.Keys["performance_only"])
	request.Close = true
	client := http.Client{Transport: &http.Transport{}} // ignore proxies of the environment
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("make the first request: %w", err)
	}
	return response.Body.Close()
}

// print writes the world for people.
func (w *demoWorld) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "A demo world with a simulated Search Console. It is gone when you stop it (Ctrl-C).\n\n"+
		"listening on %s\nadmin listening on %s\nsimulated Search Console on %s\n\n", w.BaseURL, w.AdminURL, w.UpstreamURL)
	var keys, properties [][]string
	for _, k := range w.keyTable {
		keys = append(keys, []string{k.name, k.plan, w.Keys[k.name], k.about})
	}
	for _, p := range w.propertyTable {
		property := w.Properties[p.name]
		properties = append(properties, []string{p.name, property.GSCProperty, property.Slug, property.ID, p.about})
	}
	if err := errors.Join(console.PrintTable(&text, []string{"KEY", "PLAN", "VALUE", ""}, keys), writeLine(&text),
		console.PrintTable(&text, []string{"PROPERTY", "GSC PROPERTY", "SLUG", "ID", ""}, properties)); err != nil {
		return err
	}
	main := w.BaseURL + "/v1/properties/" + w.Properties["main"].Slug
	fmt.Fprintf(&text, "\nTry:\n\n%s\n%s\n%s\n", curl(w.BaseURL+"/v1/me", w.Keys["pro"]),
		curl(main+"/summary?date_range=last_28d&compare=previous_period", w.Keys["pro"]),
		curl(main+"/queries?limit=5&filters="+url.QueryEscape(`[{"dimension":"brand","operator":"equals","value":"non-brand"}]`), w.Keys["pro"]))
	_, err := io.WriteString(out, text.String())
	return err
}

func writeLine(w io.Writer) error {
	_, err := fmt.Fprintln(w)
	return err
}
