// Package demo is the demo world: the users and sites of a simulated Search Console, and the accounts, keys, properties, years of
// history and index coverage of the service in front of it. Only this package and tests use the simulator; the service is the same
// as in production.
package demo

import (
	"cmp"
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
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/internal/status"
	"sara/policy"
	"sara/proxy"
	"sara/proxy/cpubound"
	"sara/proxy/docs"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
)

// Options of a demo.
type Options struct {
	Listeners
	LogLevel settings.Level
	Clock    settings.Clock
	Version  string // of the build
	JSON     bool   // print the world as one line of JSON
	All      bool   // print all keys and properties for people, and not only what is needed to start
	Months   Months // of archived history; zero: the usual 36 and 24
}

// Listeners of a demo. The caller closes them.
type Listeners struct {
	Public, Upstream, Admin net.Listener
}

// cacheBytes exceeds the size of all answers of the demo world.
const cacheBytes = 64 << 20

// Run seeds the demo world in a temporary folder, serves it until ctx ends, and removes it.
func Run(ctx context.Context, con *console.Console, o Options) (err error) {
	folder, err := os.MkdirTemp("", "sara-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	users, err := NewUsers(con.Now(), settings.LocalURL(o.Upstream.Addr().String()), NewKey)
	if err != nil {
		return err
	}
	simulator := &http.Server{Handler: gscsim.New(users.Simulation(con.Now)), ReadHeaderTimeout: 5 * time.Second}
	simulated := make(chan error, 1)
	go func() { simulated <- simulator.Serve(o.Upstream) }()
	defer func() {
		err = errors.Join(err, simulator.Close())
		if served := <-simulated; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}()
	return o.serve(ctx, con, folder, users, simulator)
}

// serve seeds the world in an empty folder, and serves it like the command serve.
func (o *Options) serve(ctx context.Context, con *console.Console, folder string, users *Users, simulator *http.Server) (err error) {
	registry := service.NewRegistry()
	lines := service.OpenBacklog(console.Raw(con.Stderr), registry)
	defer lines.Close()
	log := lines.Logs(settings.Log{LogLevel: o.LogLevel, AccessLogSample: settings.Fraction{Value: 1}})
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	store, err := backend.ServeDatabase(ctx, settings.Store{DatabaseURL: settings.SQLite(filepath.Join(folder, "sara.db")),
		SecretKey: settings.SecretKey{Key: secret}, Clock: o.Clock}, backend.Notices{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	slots := cpubound.New()
	gateway, err := upstream.New(upstream.Config{BaseURL: users.URL, TokenURL: users.URL + "/token", Connections: store, Slots: slots,
		Log: log.Logger, Registerer: registry})
	if err != nil {
		return err
	}
	defer gateway.Close()
	defer func() { err = errors.Join(err, simulator.Close()) }() // or the gateway would wait for the answers to calls that it has given up
	issue := admin.KeyOptions{Prefix: "sara", Plans: policy.DefaultPlans()}
	seeding := admin.Admin{Store: store, Upstream: gateway, TokenURL: users.URL + "/token", Sleep: func(time.Duration) {}} // nothing is served yet
	world, err := seed(ctx, seeding, issue, users, con.Now())
	if err != nil {
		return fmt.Errorf("seed the demo world: %w", err)
	}
	history, err := backend.OpenArchive(settings.Archive{ArchiveURL: settings.LocalArchive(filepath.Join(folder, "archive"))}, con.Now)
	if err != nil {
		return err
	}
	source := &jobs.Source{Gateway: gateway, Store: store, Plans: issue.Plans}
	if err := seedPast(ctx, users, world, source, history, cmp.Or(o.Months, usualMonths()), con.Now); err != nil {
		return err
	}
	world.BaseURL, world.AdminURL, world.UpstreamURL = settings.LocalURL(o.Public.Addr().String()), settings.LocalURL(o.Admin.Addr().String()), users.URL
	budgets, err := service.MemoryBudgets(ctx, store, log.Logger, con.Now)
	if err != nil {
		return err
	}
	defer budgets.Close()
	config := proxy.Config{
		Process: proxy.Process{Version: o.Version, Log: log.Logger, Registry: registry, Now: con.Now},
		Store:   store, Admission: proxy.AdmissionConfig{Plans: issue.Plans, Budget: budgets.Budget, KeyPrefix: issue.Prefix},
		Reports: proxy.ReportsConfig{Upstream: gateway, History: history},
		Cache:   proxy.CacheConfig{Bytes: cacheBytes}, Capacity: proxy.Capacity{Slots: slots},
		Public: proxy.PublicConfig{BaseURL: world.BaseURL,
			Prefill: docs.Prefill{Key: world.Keys[firstKey], Property: world.Properties[firstProperty].Domain}},
		AccessLog: log.Access,
	}
	service.NoteClock(ctx, o.Clock, &config)
	counted, err := status.Register(&config, nil)
	if err != nil {
		return err
	}
	server, err := proxy.New(config)
	if err != nil {
		return err
	}
	background := service.Background{Jobs: []func(context.Context){counted.Watch}}
	s := service.Service{Server: server, Background: background, Public: o.Public, Admin: o.Admin, Log: log.Logger}
	return s.Run(ctx, func(ctx context.Context) error { return o.announce(ctx, con, world) })
}

// announce prints that the demo is ready, after its first request.
func (o *Options) announce(ctx context.Context, con *console.Console, world *World) error {
	if err := world.queryDisconnected(ctx); err != nil {
		return err
	}
	if o.JSON {
		return console.PrintJSON(con.Stdout, world)
	}
	return world.print(con.Stdout, o.All)
}

// queryDisconnected requests figures of the property with revoked credentials, so that the service records the revocation.
func (w *World) queryDisconnected(ctx context.Context) error {
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

// The key and the property to begin with.
const (
	firstKey      = "pro"
	firstProperty = "main"
)

// print writes the world for people: what they need to start, or all of it.
func (w *World) print(out io.Writer, all bool) error {
	var text strings.Builder
	fmt.Fprintf(&text, "sara with a simulated Search Console. Its data is gone when you stop it (Ctrl-C).\n\n"+
		"Open %s%s in a browser: the key is filled in.\n\n"+
		"listening on %s\nadmin listening on %s\nsimulated Search Console on %s\n\n", w.BaseURL, docs.Path, w.BaseURL, w.AdminURL, w.UpstreamURL)
	if err := w.printTables(&text, all); err != nil {
		return err
	}
	if !all {
		fmt.Fprintf(&text, "\nsara demo --all prints all %d keys and %d properties, and --json prints them as JSON.\n", len(w.Keys), len(w.Properties))
	}
	main := w.BaseURL + "/v1/properties/" + w.Properties[firstProperty].Slug
	fmt.Fprintf(&text, "\nTry:\n\n%s\n%s\n%s\n", console.Curl(w.BaseURL+"/v1/me", w.Keys[firstKey]),
		console.Curl(main+"/summary?date_range=last_28d&compare=previous_period", w.Keys[firstKey]),
		console.Curl(main+"/queries?limit=5&filters="+url.QueryEscape(`[{"dimension":"brand","operator":"equals","value":"non-brand"}]`), w.Keys[firstKey]))
	fmt.Fprintf(&text, "\nFor an agent (others: %s%s/guides/agents):\n\n"+
		"claude mcp add --transport http sara %s/mcp --header \"Authorization: Bearer %s\"\n", w.BaseURL, docs.Path, w.BaseURL, w.Keys[firstKey])
	_, err := io.WriteString(out, text.String())
	return err
}

// printTables prints the first key, or all keys and properties.
func (w *World) printTables(out io.Writer, all bool) error {
	var keys, properties [][]string
	for _, k := range w.keyTable {
		if all || k.name == firstKey {
			keys = append(keys, []string{k.name, k.plan, w.Keys[k.name], k.about})
		}
	}
	if err := console.PrintTable(out, []string{"KEY", "PLAN", "VALUE", "ABOUT"}, keys); err != nil || !all {
		return err
	}
	for _, p := range w.propertyTable {
		property := w.Properties[p.name]
		properties = append(properties, []string{p.name, property.GSCProperty, property.Slug, property.ID, p.about})
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return console.PrintTable(out, []string{"PROPERTY", "GSC PROPERTY", "SLUG", "ID", "ABOUT"}, properties)
}
