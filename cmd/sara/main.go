package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends ctx. With it the handler goes, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	useCores(os.Getenv("GOMAXPROCS"))
	redis.SetLogger(quiet{}) // whether Redis answers is in our own log, once; not on standard error, for every connection
	os.Exit(run(ctx, os.Args[0], os.Args[1:], os.Stdout, os.Stderr, os.Environ()))
}

// quiet is a log of the Redis library that says nothing.
type quiet struct{}

// Printf implements the library's logging.
func (quiet) Printf(context.Context, string, ...any) {}

// commands is the command line.
type commands struct {
	Serve      serveCommand       `cmd:"" help:"Serve the API."`
	Demo       demoCommand        `cmd:"" help:"Serve a demo world with a simulated Search Console; needs nothing, keeps nothing."`
	Migrate    migrateCommand     `cmd:"" help:"Bring the database's schema up to date; every other command does so too."`
	Account    accountCommands    `cmd:"" help:"Accounts, which have a plan and pay for keys."`
	Workspace  workspaceCommands  `cmd:"" help:"Workspaces, which hold connections and properties."`
	Person     personCommands     `cmd:"" help:"People, who reach the properties of their workspaces."`
	Connection connectionCommands `cmd:"" help:"Connections to Search Console."`
	Property   propertyCommands   `cmd:"" help:"Search Console properties."`
	Key        keyCommands        `cmd:"" help:"API keys."`
	BrandTerms brandTermCommands  `cmd:"" help:"What counts as a property's brand."`
	PageGroups pageGroupCommands  `cmd:"" help:"Named sets of a property's pages."`
	Annotation annotationCommands `cmd:"" help:"Dated remarks about a property."`
	Collect    collectCommand     `cmd:"" help:"Archive the history that Search Console has of the properties, and that is not archived yet."`
	Inspect    inspectCommand     `cmd:"" help:"Discover the URLs of the properties, and ask Search Console what its index holds of each."`
	Archive    archiveCommands    `cmd:"" help:"The history of properties that is kept when Search Console has forgotten it."`
	OpenAPI    openAPICommand     `cmd:"" name:"openapi" help:"Print the OpenAPI document."`
	Status     statusCommand      `cmd:"" help:"Tell how the replicas, Redis, the database, connections, archive and budgets are; exit status 1 if something needs attention."`
	Health     healthCommand      `cmd:"" help:"Ask a server whether it gets requests; exit status 1 if it does not."`
	Version    versionCommand     `cmd:"" help:"Print the version."`
}

// run runs one command line and returns the exit status. It ends soon after ctx does. The program is how it was called.
func run(ctx context.Context, program string, args []string, stdout, stderr io.Writer, environ []string) int {
	var helped bool
	loader := settings.NewLoader(environ)
	con := &console.Console{Stdout: stdout, Stderr: stderr, Now: time.Now, Command: console.CommandName(program)}
	options := append(loader.Options(),
		kong.Name(console.ProgramName),
		kong.Description("The Search Analytics Read API over Google Search Console."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(con, loader),
	)
	parser, err := kong.New(&commands{}, options...)
	if err != nil {
		panic("BUG: the command line is not well defined: " + err.Error())
	}
	parsed, err := parser.Parse(args)
	switch wrong := settings.ErrorOf(err); {
	case helped:
		return exitOK
	case wrong != nil:
		report(stderr, wrong)
		return exitError
	case err != nil:
		report(stderr, fmt.Errorf("%w (see sara%s --help)", err, commandOf(err)))
		return exitUsage
	}
	if err := loader.Parse(parsed); err != nil {
		report(stderr, err)
		return exitError
	}
	con.Flags = repeatedFlags(parsed)
	if err := parsed.Run(); err != nil {
		report(stderr, loader.Locate(err))
		return exitError
	}
	return exitOK
}

// commandOf returns the path of the command that a usage error is about, as far as it was understood.
func commandOf(err error) string {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return ""
	}
	var path strings.Builder
	for _, step := range parse.Context.Path {
		if step.Command != nil {
			path.WriteString(" " + step.Command.Name)
		}
	}
	return path.String()
}

// report writes an error for people: one line for each of several that are joined, and what to do about it. The output
// that it would complain on is the only one that it has.
func report(w io.Writer, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
		for _, one := range several.Unwrap() {
			report(w, one)
		}
		return
	}
	_, _ = fmt.Fprintf(w, "sara: %v\n", err)
	if hint := advice(err); hint != "" {
		_, _ = fmt.Fprintf(w, "      %s\n", hint)
	}
}
