package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

// Exit statuses.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2
)

// A Program is the binary whose command lines run.
type Program struct {
	Name string // by which it was called

	// What the linker knows about the build, each empty if it does not.
	Version   string // of the module
	Revision  string // of the source
	Committed string // the date of the revision (RFC 3339)
}

// An Interruption is the cause of a context that a signal ended.
type Interruption struct{ Signal os.Signal }

func (i Interruption) Error() string { return "interrupted" }

// failureStatus is the exit status of a command that failed with an error: by the convention of shells, 128 and the number of the signal
// that interrupted it.
func failureStatus(ctx context.Context, err error) int {
	if i, ok := errors.AsType[Interruption](context.Cause(ctx)); ok {
		if number, ok := i.Signal.(syscall.Signal); ok {
			return 128 + int(number)
		}
	}
	if isUsage(err) {
		return ExitUsage
	}
	return ExitError
}

// commands is the command line.
type commands struct {
	Serve      serveCommand       `cmd:"" help:"Serve the API." example:"sara serve --listen 127.0.0.1:8080"`
	Demo       demoCommand        `cmd:"" help:"Serve a demo world with a simulated Search Console; it needs nothing installed and leaves nothing behind." example:"sara demo"`
	Migrate    migrateCommand     `cmd:"" help:"Migrate the database's schema; most other commands do so too." example:"sara migrate"`
	Account    accountCommands    `cmd:"" help:"Accounts: each has a plan, which its keys share."`
	Workspace  workspaceCommands  `cmd:"" help:"Workspaces: they group connections and properties."`
	Person     personCommands     `cmd:"" help:"People: each reads the properties of their workspaces."`
	Connection connectionCommands `cmd:"" help:"Connections to Search Console."`
	Property   propertyCommands   `cmd:"" help:"Search Console properties."`
	Key        keyCommands        `cmd:"" help:"API keys."`
	BrandTerms brandTermCommands  `cmd:"" help:"What counts as a property's brand."`
	PageGroups pageGroupCommands  `cmd:"" help:"Named groups of a property's pages."`
	Annotation annotationCommands `cmd:"" help:"Dated notes on a property."`
	Audit      auditCommands      `cmd:"" help:"The log of administrative changes."`
	Collect    collectCommand     `cmd:"" help:"Archive the history that Search Console still has and the archive does not." example:"sara collect --property shop --since 2026-01-01"`
	Inspect    inspectCommand     `cmd:"" help:"Discover the URLs of the properties, and inspect which of them are indexed." example:"sara inspect --property shop --max 100"`
	Report     reportCommand      `cmd:"" help:"Write the figures of all or some properties into files, as a client of a running server." example:"sara report --all --from 2026-03-01 --to 2026-03-01 --format csv --output report"`
	Archive    archiveCommands    `cmd:"" help:"Export, import and plan the archived history."`
	Backup     backupCommand      `cmd:"" help:"Write the database and the archive into a folder, while servers serve." example:"sara backup backup-2026-03-01"`
	Restore    restoreCommand     `cmd:"" help:"Replace the database and the archive with a backup; stop the servers first." example:"sara restore backup-2026-03-01"`
	MCP        mcpCommand         `cmd:"" name:"mcp" help:"Connect a program that starts MCP servers as processes to a server's /mcp, over standard input and output." example:"sara mcp --url https://api.example.com --key-file sara.key"`
	OpenAPI    openAPICommand     `cmd:"" name:"openapi" help:"Print the OpenAPI document." example:"sara openapi --base-url https://api.example.com"`
	Status     statusCommand      `cmd:"" help:"Show the health of replicas, Redis, database, connections, archive, index coverage and budgets; exit status 1 if something needs attention." example:"sara status --replica http://10.0.0.7:9090"`
	Health     healthCommand      `cmd:"" help:"Check whether a server is ready; exit status 1 if it is not." example:"sara health --url http://127.0.0.1:9090"`
	Completion completionCommand  `cmd:"" help:"Print a script that completes commands and flags in bash, zsh or fish." example:"sara completion bash"`
	Version    versionCommand     `cmd:"" help:"Print the version." example:"sara version"`

	ShowVersion versionFlag `name:"version" help:"Print the version."`
}

// Run runs one command line, until ctx ends, and returns the exit status.
func (p Program) Run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = console.Text(stderr)
	var helped bool
	loader := settings.NewLoader(environ, allSettings)
	build := p.build()
	con := &console.Console{Stdin: stdin, Stdout: stdout, Stderr: stderr, Now: time.Now, Command: console.CommandName(p.Name), Version: build.Version}
	options := append(loader.Options(),
		kong.Name(console.ProgramName),
		kong.Description("The Search Analytics Read API over Google Search Console."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.PostBuild(explain),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(con, loader, build),
	)
	parsed, err := parse(args, options)
	if err == nil && !helped {
		err = checkEmpty(parsed)
	}
	switch {
	case helped:
		return ExitOK
	case err != nil:
		return reportParse(con, parsed, err)
	}
	if err := loader.Parse(parsed); err != nil {
		report(con, err)
		if errors.Is(err, settings.ErrUsage) {
			return ExitUsage
		}
		return ExitError
	}
	con.Now, con.Flags = loader.Clock(con.Now), repeatedFlags(parsed)
	if err := parsed.Run(); err != nil {
		status := failureStatus(ctx, err)
		if status > 128 && errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // which query it interrupted does not matter
		}
		report(con, loader.Locate(err))
		return status
	}
	return ExitOK
}

// reportParse prints why a command line was not parsed, and returns the exit status. parsed is nil, or what was parsed.
func reportParse(con *console.Console, parsed *kong.Context, err error) int {
	switch settingErr := settings.ErrorOf(err); {
	case settingErr != nil:
		report(con, settingErr)
		return ExitError
	case errors.As(err, new(*fs.PathError)): // the help or the version could not be written
		report(con, err)
		return ExitError
	}
	// For the parser, an empty default is one of the choices.
	message := strings.Replace(err.Error(), ` must be one of "",`, " must be one of ", 1)
	report(con, fmt.Errorf("%s (see sara%s --help)", message, commandOf(parsed, err)))
	return ExitUsage
}

// parse parses a command line; sara help COMMAND is sara COMMAND --help. The parser would replace what is not UTF-8, and another text would
// be stored.
func parse(args []string, options []kong.Option) (*kong.Context, error) {
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	if i := slices.IndexFunc(args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		return nil, fmt.Errorf("%q is not text in UTF-8", args[i])
	}
	return newParser(grammar(args), options).Parse(args)
}

func newParser(grammar any, options []kong.Option) *kong.Kong {
	parser, err := kong.New(grammar, options...)
	if err != nil {
		panic("BUG: the definition of the command line is invalid: " + err.Error())
	}
	return parser
}

// allCommands returns the model of all commands.
func allCommands(loader *settings.Loader) *kong.Node {
	return newParser(&commands{}, loader.Options()).Model.Node
}

// commandOf returns the command of a usage error, as far as it was parsed.
func commandOf(parsed *kong.Context, err error) string {
	if failed, ok := errors.AsType[*kong.ParseError](err); ok {
		parsed = failed.Context
	}
	if parsed == nil {
		return ""
	}
	var path strings.Builder
	for _, step := range parsed.Path {
		if step.Command != nil {
			path.WriteString(" " + step.Command.Name)
		}
	}
	return path.String()
}

// report prints an error for people: a line for each of several that are joined, and how to fix it.
func report(con *console.Console, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
		for _, part := range several.Unwrap() {
			report(con, part)
		}
		return
	}
	_, _ = fmt.Fprintf(con.Stderr, "sara: %v\n", err)
	if hint := advice(con, err); hint != "" {
		_, _ = fmt.Fprintf(con.Stderr, "      %s\n", hint)
	}
}
