package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/reporting"
	"sara/cmd/sara/internal/settings"
	"sara/translate"
)

type reportCommand struct {
	settings.File
	settings.Public
	settings.Client
	Property  []string      `arg:"" optional:"" help:"Id, Search Console property, slug or domain; with a star, such as 'client1-*', all that match."`
	All       bool          `help:"Report all properties of the key."`
	From      *date         `placeholder:"DATE" help:"First day, YYYY-MM-DD."`
	To        *date         `placeholder:"DATE" help:"Last day, YYYY-MM-DD; Search Console has figures up to about two days ago."`
	DateRange string        `enum:",last_7d,last_28d,last_30d,last_90d,last_3m,last_6m,last_12m,last_16m,month_to_date,previous_month,year_to_date,previous_year" default:"" placeholder:"PRESET" help:"Range in place of --from and --to, such as last_7d or previous_month; default: last_28d."`
	Compare   string        `enum:"none,previous_period,previous_year" default:"none" placeholder:"PERIOD" help:"Compare the portfolio with previous_period or previous_year; default: none."`
	Tables    []string      `enum:"queries,pages,countries,devices,timeseries" placeholder:"TABLE" help:"Tables of each property besides the portfolio: queries, pages, countries, devices, timeseries; default: none. Each costs one request a property and 1,000 rows, and up to two live calls."`
	Limit     int           `default:"1000" placeholder:"ROWS" help:"Rows of each table, those with the most clicks, 1 to 25000, which are all that Search Console gives; default: ${default}, one request."`
	Format    string        `enum:",csv,ndjson,json" default:"" placeholder:"FORMAT" help:"csv, ndjson or json; default: by the extension of --output, else csv."`
	Output    string        `placeholder:"PATH" help:"Folder for the portfolio and the tables; or a file (.csv, .ndjson, .json) or - for the portfolio alone; default: -, standard output."`
	Replace   bool          `help:"Replace the report in the folder, or the file."`
	Resume    bool          `help:"Write only what the same report in the folder lacks."`
	MaxWait   time.Duration `default:"1m" placeholder:"TIME" help:"Longest wait for a limit, 0s to 24h: 1m waits for the minute's, 1h for the hour's too; default: ${default}."`
	Quiet     bool          `help:"Print problems only."`
	URL       string        `name:"url" placeholder:"URL" help:"Address of the API, such as https://api.example.com; default: --base-url, else that of --listen on this machine."`
	KeyFile   string        `placeholder:"FILE" help:"File with the API key; default: SARA_API_KEY."`
}

// Help is the longer help of the command.
func (reportCommand) Help() string {
	return `It asks a running server as any client does: through its cache, and charged to the limits of the key. At a limit that resets within --max-wait it waits; at a later one it stops, says what is missing, and continues with --resume. Whatever can be read is written; the exit status is 1 if anything is missing.

A folder has portfolio.csv with a line for each property; for each table a folder with a file for each property, such as queries/shop.csv, whose columns begin with the dates and the property, so that all files of the folder read as one table; notes.csv, which says for each file what its figures are (source, truncated_by, stale_reason, notes) or why it is missing; and report.json, the same for programs. In csv, a quote (') precedes texts that a spreadsheet would run as a formula.`
}

// Validate implements kong's check of a command line.
func (c *reportCommand) Validate() error {
	switch {
	case c.All == (len(c.Property) > 0):
		return errors.New("name properties, or all of them with --all")
	case (c.From == nil) != (c.To == nil):
		return errors.New("--from and --to belong together")
	case c.From != nil && c.DateRange != "":
		return errors.New("--date-range takes the place of --from and --to: leave one out")
	case c.From != nil && c.From.Date > c.To.Date:
		return fmt.Errorf("--from %s is after --to %s", c.From, c.To)
	case c.Limit < 1 || c.Limit > translate.WideSample:
		return fmt.Errorf("--limit %d is not a number of 1 to %d", c.Limit, translate.WideSample)
	case c.MaxWait < 0 || c.MaxWait > 24*time.Hour:
		return fmt.Errorf("--max-wait %v is not a time of 0s to 24h", c.MaxWait)
	case c.Replace && c.Resume:
		return errors.New("--replace starts over and --resume continues: leave one out")
	case len(c.Tables) > 0 && !c.isFolder():
		return errors.New("--tables needs a folder: name it with --output FOLDER")
	case c.Resume && !c.isFolder():
		return errors.New("--resume needs the folder of the report: name it with --output FOLDER")
	case c.extension() != "" && c.Format != "" && c.Format != c.extension():
		return fmt.Errorf("--output %s is not a file of --format %s", c.Output, c.Format)
	}
	return nil
}

// extension returns that of the output, if it is one of a format.
func (c *reportCommand) extension() string {
	extension := strings.ToLower(strings.TrimPrefix(filepath.Ext(c.Output), "."))
	if slices.Contains([]string{"csv", "ndjson", "json"}, extension) {
		return extension
	}
	return ""
}

// isFolder reports whether the output is a folder: neither standard output nor a file.
func (c *reportCommand) isFolder() bool {
	return c.Output != "" && c.Output != standardOutput && c.extension() == ""
}

// standardOutput is the name of standard output.
const standardOutput = "-"

func (c *reportCommand) Run(ctx context.Context, con *console.Console) error {
	client, err := c.client(con)
	if err != nil {
		return err
	}
	progress := &reportProgress{con: con, quiet: c.Quiet}
	defer progress.end()
	client.Waiting = progress.Waiting
	config := reporting.Config{Client: client, Question: c.question(), Tables: unique(c.Tables), Progress: progress, Now: con.Now}
	var result *reporting.Result
	if c.isFolder() {
		result, err = c.writeFolder(ctx, con, config)
	} else {
		result, err = c.writePortfolio(ctx, con, config)
	}
	progress.end()
	if result != nil {
		c.print(con, result)
	}
	if ctx.Err() != nil && c.isFolder() {
		return fmt.Errorf("%w: what is written stays; repeat the command with --resume to go on", context.Cause(ctx))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.advise(con, err)
}

// question returns what the flags ask.
func (c *reportCommand) question() reporting.Question {
	format := cmp.Or(c.Format, c.extension(), string(reporting.CSV))
	q := reporting.Question{Compare: c.Compare, Limit: c.Limit, Format: reporting.Format(format), Preset: cmp.Or(c.DateRange, translate.DefaultPreset),
		Select: unique(c.Property)}
	if c.From != nil {
		q.Preset, q.From, q.To = "", c.From.String(), c.To.String()
	}
	return q
}

// unique returns names in order, each once.
func unique(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// client returns the client of the server, with the key.
func (c *reportCommand) client(con *console.Console) (*reporting.Client, error) {
	base := strings.TrimSuffix(cmp.Or(c.URL, c.BaseURL.Or(c.Listen.URL())), "/")
	if _, err := settings.ParseURL(base, exampleURL); err != nil {
		return nil, usage(fmt.Errorf("--url %w", err))
	}
	key, err := apiKey(con, &c.Client, c.KeyFile)
	if err != nil {
		return nil, err
	}
	return &reporting.Client{URL: base, Key: key, Patience: c.MaxWait, Transport: serverTransport(), Agent: "sara-report/" + con.Version,
		Now: con.Now}, nil
}

func (c *reportCommand) writeFolder(ctx context.Context, con *console.Console, config reporting.Config) (_ *reporting.Result, err error) {
	mode := reporting.New
	switch {
	case c.Resume:
		mode = reporting.Resume
	case c.Replace:
		mode = reporting.Replace
	}
	empty, err := reporting.IsEmpty(c.Output)
	if err != nil {
		return nil, err
	}
	if !empty && mode == reporting.New {
		if err := con.ConfirmOverwrite(ctx, c.Output+" is not empty.", "--replace, or go on with --resume"); err != nil {
			return nil, err
		}
		mode = reporting.Replace
	}
	folder, err := reporting.OpenFolder(c.Output, mode)
	if err != nil {
		return nil, err
	}
	result, err := reporting.Write(ctx, config, folder)
	return result, errors.Join(err, folder.Close())
}

// writePortfolio writes the portfolio to standard output or into a file.
func (c *reportCommand) writePortfolio(ctx context.Context, con *console.Console, config reporting.Config) (*reporting.Result, error) {
	if c.extension() == "" {
		return reporting.WritePortfolio(ctx, config, con.Stdout)
	}
	if info, err := os.Stat(c.Output); err == nil && info.Mode().IsRegular() && !c.Replace {
		if err := con.ConfirmOverwrite(ctx, c.Output+" exists.", "--replace"); err != nil {
			return nil, err
		}
	}
	var text bytes.Buffer
	result, incomplete := reporting.WritePortfolio(ctx, config, &text)
	if result == nil {
		return nil, incomplete
	}
	err := replaceFile(backend.Linked(c.Output), func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
	return result, errors.Join(err, incomplete)
}

// print prints what could not be read, and how much is there.
func (c *reportCommand) print(con *console.Console, result *reporting.Result) {
	const most = 20
	for i, failure := range result.Failures {
		if i == most {
			_, _ = fmt.Fprintf(con.Stderr, "... and %d more\n", len(result.Failures)-most)
			break
		}
		_, _ = fmt.Fprintln(con.Stderr, failure)
	}
	if c.Quiet {
		return
	}
	for _, note := range result.Notes {
		_, _ = fmt.Fprintln(con.Stderr, note)
	}
	if c.isFolder() {
		_, _ = fmt.Fprintf(con.Stdout, "%s of %s, %s to %s, are in %s\n", english.Plural(result.Files, "file", ""),
			english.Plural(result.Properties, "property", ""), result.From, result.To, c.Output)
	}
}

// advise adds to the error of an incomplete report how it is completed.
func (c *reportCommand) advise(con *console.Console, err error) error {
	incomplete, ok := errors.AsType[*reporting.IncompleteError](err)
	if !ok || incomplete.IsRefused() {
		return err
	}
	how := "repeat the command"
	if c.isFolder() {
		how += " with --resume"
	}
	if !incomplete.GoOnAt.IsZero() {
		left := incomplete.GoOnAt.Sub(con.Now()).Round(time.Second)
		how += fmt.Sprintf(" at %s, in %v", console.Timestamp(incomplete.GoOnAt), left)
	}
	return fmt.Errorf("%w; %s", err, how)
}
