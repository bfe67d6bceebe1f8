package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/consent"
	"sara/cmd/sara/internal/console"
	"sara/proxy/upstream"
)

type connectionConnect struct {
	upstreamFlags
	console.Output
	Workspace string        `arg:"" help:"Name, ACCOUNT/NAME or id."`
	Client    string        `required:"" placeholder:"FILE" help:"JSON of an OAuth client of the type \"Desktop app\", as Google issues it; - reads standard input."`
	Name      string        `help:"Name of the connection; default: the e-mail address of the Google account."`
	All       bool          `help:"Add all sites that the account reads, without asking; required where there is no terminal."`
	NoBrowser bool          `help:"Only print the address of the consent page."`
	Port      int           `placeholder:"N" help:"Port of this machine to which Google sends the browser back; default: any free one."`
	Wait      time.Duration `default:"10m" placeholder:"TIME" help:"How long to wait for the consent; default: ${default}."`
}

// Help is the longer help of the command.
func (connectionConnect) Help() string {
	return `A Google account that is connected to the workspace already is renewed: its properties stay.

If the browser is on another machine, forward a port to this one, and name it:

  ssh -L 8085:127.0.0.1:8085 HOST

  sara connection connect WORKSPACE --client client.json --no-browser --port 8085

The guide "Connect Google" (/docs/guides/connect-google) shows how to create the client file.`
}

// Validate implements kong's check of a command line.
func (c *connectionConnect) Validate() error {
	const mostPort, longest = 65535, 24 * time.Hour
	switch {
	case c.Port < 0 || c.Port > mostPort:
		return fmt.Errorf("--port %d is not a number of 1 to %d", c.Port, mostPort)
	case c.Wait <= 0 || c.Wait > longest:
		return fmt.Errorf("--wait %v is not a time of more than 0s, and at most 24h", c.Wait)
	}
	return nil
}

// connectedRecord is a connection with the properties that a consent added or kept.
type connectedRecord struct {
	connectionRecord
	Renewed    bool           `json:"renewed"`
	Properties []importRecord `json:"properties"`
}

func (c *connectionConnect) Run(ctx context.Context, con *console.Console) error {
	text, err := con.ReadFile(ctx, c.Client)
	if err != nil {
		return fmt.Errorf("read the client file: %w", err)
	}
	client, err := upstream.ParseClient(text, c.OAuthTokenURL.String())
	if err != nil {
		return err
	}
	if !c.All && !con.IsInteractive() {
		return errors.New("there is no terminal on which to choose the sites: repeat the command with --all")
	}
	return c.use(ctx, con, func(a admin.Admin) error {
		workspace, err := a.Store.Workspace(ctx, c.Workspace)
		switch {
		case err != nil:
			return err
		case c.SecretKey.Key == nil: // before a person is asked
			return noSecretKey(ctx, a.Store)
		}
		f := consentFlow{c, con, a, client}
		consented, sites, err := f.ask(ctx, workspace)
		if err != nil {
			return fmt.Errorf("nothing was stored: %w", err)
		}
		return f.store(ctx, consented, sites)
	})
}

// A consentFlow connects a Google account, step by step.
type consentFlow struct {
	*connectionConnect
	con    *console.Console
	admin  admin.Admin
	client upstream.Client
}

// ask gets a consent and the choice of sites, and stores nothing.
func (f consentFlow) ask(ctx context.Context, workspace sqlstore.Workspace) (*admin.Consented, []upstream.Site, error) {
	grant, err := f.consent(ctx)
	if err != nil {
		return nil, nil, err
	}
	consented, err := f.admin.Explore(ctx, workspace, f.Name, grant)
	switch {
	case err != nil:
		return nil, nil, err
	case len(consented.Readable) == 0:
		return nil, nil, fmt.Errorf("%s reads no site: choose an account that does, or let an owner add this one in Search Console "+
			"(Settings, Users and permissions)", consented.Identity)
	case f.All:
		return consented, consented.Readable, nil
	}
	sites, err := pickSites(ctx, f.con, consented)
	return consented, sites, err
}

// consent gets a person's consent in a browser.
func (f consentFlow) consent(ctx context.Context) (upstream.Grant, error) {
	listener, err := consent.Listen(f.Port)
	if err != nil {
		return upstream.Grant{}, fmt.Errorf("--port %d: %w", f.Port, err)
	}
	defer func() { _ = listener.Close() }() // Await has closed it, unless it was not reached
	attempt := f.client.Consent(consent.Address(listener))
	if _, err := fmt.Fprintf(f.con.Stderr, "Consent with the Google account to connect, in a browser on this machine "+
		"(on another one: sara connection connect --help):\n\n  %s\n\n", attempt.URL()); err != nil {
		return upstream.Grant{}, err
	}
	if !f.NoBrowser && consent.Open(attempt.URL()) != nil {
		f.con.Note("no browser could be opened: open the address yourself") // it is printed above
	}
	waiting, cancel := context.WithTimeout(ctx, f.Wait)
	defer cancel()
	code, err := consent.Await(waiting, listener, attempt.Code)
	switch {
	case ctx.Err() != nil:
		return upstream.Grant{}, errors.New("interrupted before the consent")
	case errors.Is(err, context.DeadlineExceeded):
		return upstream.Grant{}, fmt.Errorf("no answer within %s: run the command again; if Google showed an error, the guide "+
			"\"Connect Google\" (/docs/guides/connect-google) explains it", shortDuration(f.Wait))
	case err != nil:
		return upstream.Grant{}, err
	}
	return f.admin.Upstream.Redeem(ctx, attempt, code)
}

// shortDuration writes 10m0s as 10m.
func shortDuration(d time.Duration) string {
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// pickSites lets a person choose among the sites that an account reads.
func pickSites(ctx context.Context, con *console.Console, c *admin.Consented) ([]upstream.Site, error) {
	rows := make([][]string, len(c.Readable))
	for i, s := range c.Readable {
		rows[i] = []string{strconv.Itoa(i + 1), s.URL, s.Permission, ""}
		if c.Has(s) {
			rows[i][3] = "added already"
		}
	}
	if _, err := fmt.Fprintf(con.Stderr, "%s reads %s.\n\n", c.Identity, english.Plural(len(rows), "site", "")); err != nil {
		return nil, err
	}
	if err := console.PrintTable(con.Stderr, []string{"", "SITE", "PERMISSION", ""}, rows); err != nil {
		return nil, err
	}
	if len(c.Sightless) > 0 {
		_, _ = fmt.Fprintf(con.Stderr, "\nNot listed, because the account has not verified them: %d more.\n", len(c.Sightless))
	}
	picked, err := con.Pick(ctx, "\nWhich of them to add?", len(rows))
	if err != nil {
		return nil, err
	}
	sites := make([]upstream.Site, len(picked))
	for i, at := range picked {
		sites[i] = c.Readable[at]
	}
	return sites, nil
}

// store stores the consent, checks it with one query, and prints what there is now.
func (f consentFlow) store(ctx context.Context, consented *admin.Consented, sites []upstream.Site) error {
	connection, results, err := f.admin.StoreConsent(ctx, consented, sites)
	if err != nil {
		return err
	}
	tried := consented.Readable[0].URL
	if len(sites) > 0 {
		tried = sites[0].URL
	}
	if clicks, err := f.admin.Try(ctx, connection, tried, f.con.Now()); err != nil {
		f.con.Note("the connection is stored, but a first query failed: %v", err)
	} else {
		_, _ = fmt.Fprintf(f.con.Stderr, "Checked: %s had %s in the last %d days.\n", tried, english.Plural(int(clicks), "click", ""), admin.TriedDays)
	}
	_, _ = fmt.Fprintf(f.con.Stderr, "Note: %s\n\n", lifetimeNote(consented.Grant, f.client, f.con.Now()))
	return f.print(ctx, connection, results)
}

// lifetimeNote says when the consent ends. Google does not say which consent screens are in testing.
func lifetimeNote(grant upstream.Grant, client upstream.Client, now time.Time) string {
	if grant.Lifetime > 0 {
		return fmt.Sprintf("this consent ends on %s: run the same command again before then.", console.Timestamp(now.Add(grant.Lifetime)))
	}
	project := "the client's project"
	if client.Project != "" {
		project = "project " + client.Project
	}
	return fmt.Sprintf("if the consent screen of %s is external and its publishing status is Testing, Google ends this consent after 7 days. "+
		"Publish it (Google Auth Platform, Audience), then run the same command again.", project)
}

func (f consentFlow) print(ctx context.Context, connection sqlstore.Connection, results []admin.Imported) error {
	record := connectedRecord{connectionRecord: recordOfConnection(connection), Renewed: connection.Revision > 1,
		Properties: importRecords(f.con, results)}
	if f.JSON {
		return console.PrintJSON(f.con.Stdout, record)
	}
	if err := console.One(f.Output, f.con.Stdout, record.connectionRecord); err != nil {
		return err
	}
	if len(record.Properties) == 0 {
		f.con.Next(f.Output, "import all properties that it reaches, or add one.",
			console.CommandLine("property", "import", connectionReference(ctx, f.admin.Store, connection)),
			console.CommandLine("property", "add", connectionReference(ctx, f.admin.Store, connection), "sc-domain:example.com"))
		return nil
	}
	if _, err := fmt.Fprintln(f.con.Stdout); err != nil {
		return err
	}
	if err := console.Many(f.Output, f.con.Stdout, record.Properties); err != nil {
		return err
	}
	nextAfterImport(f.con, f.Output)
	return nil
}
