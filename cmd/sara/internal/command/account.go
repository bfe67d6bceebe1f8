package command

import (
	"context"
	"errors"

	"github.com/dustin/go-humanize/english"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
	"sara/proxy/jobs/collector"
	"sara/translate"
)

type accountCommands struct {
	Add    accountAdd    `cmd:"" help:"Add an account." example:"sara account add Acme --plan pro"`
	Plan   accountPlan   `cmd:"" help:"Change an account's plan and its last day." example:"sara account plan Acme agency --until 2027-12-31"`
	List   accountList   `cmd:"" help:"List the accounts." example:"sara account list"`
	Remove accountRemove `cmd:"" help:"Remove an account with its workspaces, people and keys, and its archived history." example:"sara account remove Acme"`
}

type accountRecord struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Plan      string  `json:"plan"`
	Until     *string `json:"until"` // the plan's last day, inclusive; null: no end
	CreatedAt string  `json:"created_at"`
}

func (a accountRecord) Columns() []console.Column {
	return []console.Column{{"NAME", a.Name}, {"PLAN", a.Plan}, {"UNTIL", console.Cell(a.Until)}, {"CREATED", a.CreatedAt}, {"ID", a.ID}}
}

func recordOfAccount(a sqlstore.Account) accountRecord {
	return accountRecord{ID: a.ID, Name: a.Name, Plan: a.Plan, Until: console.OptionalDate(a.Until), CreatedAt: console.Timestamp(a.CreatedAt)}
}

type accountAdd struct {
	storeFlags
	settings.Plans
	console.Output
	Name  string `arg:"" help:"Its name."`
	Plan  string `required:"" placeholder:"PLAN" help:"own (no limits but those of Google and the machine), pro, agency, trial or none; or a plan of the plans file."`
	Until *date  `placeholder:"DATE" help:"Last day of the plan, inclusive, in UTC; it may be in the past. Default: the plan does not end."`
}

func (c *accountAdd) Run(ctx context.Context, con *console.Console) error {
	// Before the database is opened, which creates its file.
	if err := errors.Join(admin.CheckPlan(c.PlansFile.Table(), c.Plan), sqlstore.CheckAccountName(c.Name)); err != nil {
		return err
	}
	return c.create(ctx, con, func(store *sqlstore.Store) error {
		account, err := store.AddAccount(ctx, c.Name, c.Plan, c.Until.day())
		if err != nil {
			return err
		}
		if err := console.One(c.Output, con.Stdout, recordOfAccount(account)); err != nil {
			return err
		}
		con.Next(c.Output, "add a workspace, which holds connections and properties.",
			console.CommandLine("workspace", "add", accountReference(ctx, store, account.Name, account.ID), "Main"))
		return nil
	})
}

type accountPlan struct {
	storeFlags
	settings.Plans
	console.Output
	Account string `arg:"" help:"Name or id."`
	Plan    string `arg:"" help:"own (no limits but those of Google and the machine), pro, agency, trial or none; or a plan of the plans file."`
	Until   *date  `placeholder:"DATE" help:"Last day of the plan, inclusive, in UTC; it may be in the past. Default: the plan does not end."`
}

func (c *accountPlan) Run(ctx context.Context, con *console.Console) error {
	plans := c.PlansFile.Table()
	if err := admin.CheckPlan(plans, c.Plan); err != nil {
		return err
	}
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		former, err := store.Account(ctx, c.Account)
		if err != nil {
			return err
		}
		account, err := store.SetPlan(ctx, c.Account, c.Plan, c.Until.day())
		if err != nil {
			return err
		}
		if err := warnOfDeletion(con, plans, former.Plan, account.Plan); err != nil {
			return err
		}
		return console.One(c.Output, con.Stdout, recordOfAccount(account))
	})
}

// warnOfDeletion says which history will be deleted because a plan keeps less than the former one. A plan that keeps nothing deletes nothing:
// its properties are not collected.
func warnOfDeletion(con *console.Console, plans policy.Plans, former, plan string) error {
	kept, months := plans[former].RetentionMonths, plans[plan].RetentionMonths
	if months <= 0 || months >= kept {
		return nil
	}
	first, err := firstKept(con, months)
	if err == nil {
		con.Note("%s keeps %s of history, and %s kept %d: the next collection deletes archived days before %s",
			plan, english.Plural(months, "month", ""), former, kept, first)
	}
	return err
}

// firstKept returns the first archived day that a plan keeps: the next collection deletes earlier ones.
func firstKept(con *console.Console, months int) (translate.Date, error) {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return 0, err
	}
	return collector.FirstKept(calendar.Anchor(con.Now()), months), nil
}

type accountList struct{ recordFlags }

func (c *accountList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]accountRecord, error) {
		accounts, err := store.Accounts(ctx)
		return console.Each(accounts, recordOfAccount), err
	}, "there is no account yet: add one, which has a plan.", console.CommandLine("account", "add", "NAME", "--plan", "pro"))
}
