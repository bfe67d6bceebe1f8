package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
)

type keyCommands struct {
	Create keyCreate `cmd:"" help:"Create a key for a person and print it, once." example:"sara key create ann@acme.example --name laptop --scope performance:read"`
	Update keyUpdate `cmd:"" help:"Change the addresses that a key can be used from, within a second on all replicas." example:"sara key update 0195f3c2-7d1e-7b52-9d3f-3f8a2c6d9e10 --from 192.0.2.0/24"`
	List   keyList   `cmd:"" help:"List the keys of a person or an account, including revoked and expired ones." example:"sara key list ann@acme.example"`
	Revoke keyRevoke `cmd:"" help:"Revoke a key, immediately and permanently." example:"sara key revoke 0195f3c2-7d1e-7b52-9d3f-3f8a2c6d9e10"`
	Rotate keyRotate `cmd:"" help:"Replace a key, and print the new one, once. The old one ends after an overlap." example:"sara key rotate 0195f3c2-7d1e-7b52-9d3f-3f8a2c6d9e10 --overlap 24h"`
}

type keyRecord struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	PersonID  string          `json:"person_id"`
	Scopes    []string        `json:"scopes"`
	Workspace *workspaceScope `json:"workspace"` // null: all workspaces of the person
	From      []string        `json:"from"`      // empty: any address
	CreatedAt string          `json:"created_at"`
	ExpiresAt *string         `json:"expires_at"`
	LastUsed  *string         `json:"last_used_at"` // the hour; null: not used
	RevokedAt *string         `json:"revoked_at"`
}

func (k keyRecord) Columns() []console.Column {
	workspace, from := "all", cmp.Or(strings.Join(k.From, " "), anyAddress)
	if k.Workspace != nil {
		workspace = k.Workspace.Name
	}
	return []console.Column{{"NAME", k.Name}, {"SCOPES", strings.Join(k.Scopes, " ")}, {"WORKSPACE", workspace}, {"FROM", from},
		{"EXPIRES", console.Cell(k.ExpiresAt)}, {"LAST USED", console.Cell(k.LastUsed)}, {"REVOKED AT", console.Cell(k.RevokedAt)}, {"ID", k.ID}}
}

func recordOfKey(k sqlstore.APIKey) keyRecord {
	record := keyRecord{ID: k.ID, Name: k.Name, PersonID: k.PersonID, Scopes: k.Scopes, From: k.From.Names(), CreatedAt: console.Timestamp(k.CreatedAt),
		ExpiresAt: console.OptionalTime(k.ExpiresAt), LastUsed: console.OptionalTime(k.LastUsed), RevokedAt: console.OptionalTime(k.RevokedAt)}
	if k.Workspace != nil {
		record.Workspace = &workspaceScope{k.Workspace.ID, k.Workspace.Name}
	}
	return record
}

type keyCreate struct {
	storeFlags
	settings.Plans
	settings.Keys
	settings.NewKeys
	settings.Public
	console.Output
	Email         string    `arg:"" help:"Email address or id of the person that the key acts for."`
	Name          string    `required:"" help:"Name of the key: 1 to 80 characters."`
	Scope         commaList `placeholder:"SCOPE" help:"properties:read, performance:read, indexing:read or config:read; may be repeated; default: all four."`
	Workspace     string    `placeholder:"WORKSPACE" help:"Restrict the key to one of the person's workspaces."`
	From          commaList `placeholder:"CIDR" help:"Allow requests only from this network, such as 192.0.2.0/24, or address; may be repeated; default: any."`
	ExpiresInDays *int      `placeholder:"DAYS" help:"1 to 3650; default: --key-max-days, else the key does not expire."`
}

// newKeyRecord is a key with its text, of which this is the only copy.
type newKeyRecord struct {
	keyRecord
	Key string `json:"key"`
}

func (c *keyCreate) Run(ctx context.Context, con *console.Console) error {
	expires, err := c.expiry(con.Now())
	if err != nil {
		return err
	}
	from, err := addresses(c.From)
	if err != nil {
		return err
	}
	if _, err := policy.ParseScopes(c.Scope); err != nil { // before the database is opened
		return usage(err)
	}
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		key, text, err := admin.Admin{Store: store}.CreateKey(ctx,
			admin.KeyOptions{Prefix: c.KeyPrefix.String(), Plans: c.PlansFile.Table()}, sqlstore.KeySpec{
				Person: c.Email, Name: c.Name, Scopes: c.Scope, Workspace: c.Workspace, From: from, ExpiresAt: expires,
			})
		if full, ok := errors.AsType[*sqlstore.KeyLimitError](err); ok && full.Limit == 0 {
			return fmt.Errorf("account %q is on plan %q, which has no API access: change the plan with sara account plan", full.Account, full.Plan)
		}
		if err != nil {
			return err
		}
		return printNewKey(con, c.Output, key, text, func() string {
			return "Try it while the server runs (sara serve):\n\n" + c.tries(ctx, store, key, text)
		})
	})
}

// printNewKey prints a key, with its text, and what to know about it. If that fails, the text is lost, and the error says what to do.
func printNewKey(con *console.Console, o console.Output, key sqlstore.APIKey, text string, about func() string) error {
	record := newKeyRecord{recordOfKey(key), text}
	var err error
	if o.JSON {
		err = console.PrintJSON(con.Stdout, record)
	} else if err = console.One(o, con.Stdout, record.keyRecord); err == nil {
		_, err = fmt.Fprintf(con.Stdout, "\n%s\n\nSave it now: it is not shown again. %s\n", text, about())
	}
	if err != nil {
		return fmt.Errorf("the key %s is stored, but was not printed: revoke it, and create another one: %w", key.ID, err)
	}
	return nil
}

func (c *keyCreate) expiry(now time.Time) (*time.Time, error) {
	const longest = 3650
	days := c.KeyMaxDays.N
	if c.ExpiresInDays != nil {
		most := cmp.Or(days, longest)
		if days = *c.ExpiresInDays; days < 1 || days > most {
			return nil, usage(fmt.Errorf("--expires-in-days %d is not a number of 1 to %d", days, most))
		}
	}
	if days == 0 {
		return nil, nil
	}
	return new(now.UTC().AddDate(0, 0, days)), nil
}

// tries returns first requests for the key: about the key itself, and about a property if it reaches one.
func (c *keyCreate) tries(ctx context.Context, store *sqlstore.Store, key sqlstore.APIKey, text string) string {
	base := c.BaseURL.Or(c.Listen.URL())
	tries := console.Curl(base+"/v1/me", text)
	reach := sqlstore.Reach{PersonID: key.PersonID}
	if key.Workspace != nil {
		reach.WorkspaceID = key.Workspace.ID
	}
	reached, err := store.ReachableProperties(ctx, reach, 1, 0)
	if err == nil && len(reached) > 0 && slices.Contains(key.Scopes, "performance:read") {
		tries += "\n" + console.Curl(base+"/v1/properties/"+reached[0].ID+"/summary", text)
	}
	return tries
}

// anyAddress is the value of --from that lifts a restriction.
const anyAddress = "any"

// addresses parses the values of --from.
func addresses(from []string) (policy.Addresses, error) {
	if slices.Equal(from, []string{anyAddress}) {
		return nil, nil
	}
	networks, err := policy.ParseAddresses(from)
	if err != nil {
		return nil, usage(fmt.Errorf("--from: %w", err))
	}
	return networks, nil
}

type keyUpdate struct {
	recordFlags
	KeyID string    `arg:"" name:"key_id" help:"Id of the key, as key list shows it."`
	From  commaList `required:"" placeholder:"CIDR" help:"Allow requests only from this network, such as 192.0.2.0/24, or address; may be repeated; any: from everywhere."`
}

func (c *keyUpdate) Run(ctx context.Context, con *console.Console) error {
	from, err := addresses(c.From)
	if err != nil {
		return err
	}
	return c.show(ctx, con, func(store *sqlstore.Store) (console.Record, error) {
		key, err := store.RestrictKey(ctx, c.KeyID, from)
		return recordOfKey(key), err
	})
}

type keyList struct {
	recordFlags
	Email   string `arg:"" optional:"" help:"Email address or id."`
	Account string `placeholder:"ACCOUNT" help:"List the keys of all people of this account instead: its name or id."`
}

// Validate implements kong's check of a command line.
func (c *keyList) Validate() error {
	if (c.Email == "") == (c.Account == "") {
		return errors.New("name a person, EMAIL, or an account, --account ACCOUNT")
	}
	return nil
}

// accountKeyRecord is a key in a list of several people.
type accountKeyRecord struct {
	keyRecord
	Email string `json:"email"`
}

func (k accountKeyRecord) Columns() []console.Column {
	return append([]console.Column{{"PERSON", k.Email}}, k.keyRecord.Columns()...)
}

func recordOfAccountKey(k sqlstore.AccountKey) accountKeyRecord {
	return accountKeyRecord{recordOfKey(k.APIKey), k.Email}
}

func (c *keyList) Run(ctx context.Context, con *console.Console) error {
	if c.Account != "" {
		return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]accountKeyRecord, error) {
			keys, err := store.AccountKeys(ctx, c.Account)
			return console.Each(keys, recordOfAccountKey), err
		}, "the people of the account have no key yet: create one.", console.CommandLine("key", "create", "EMAIL", "--name", "NAME"))
	}
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]keyRecord, error) {
		keys, err := store.Keys(ctx, c.Email)
		return console.Each(keys, recordOfKey), err
	}, "the person has no key yet: create one.", console.CommandLine("key", "create", c.Email, "--name", "NAME"))
}

type keyRevoke struct {
	recordFlags
	KeyID string `arg:"" name:"key_id" help:"Id of the key, as key list shows it."`
}

func (c *keyRevoke) Run(ctx context.Context, con *console.Console) error {
	return c.show(ctx, con, func(store *sqlstore.Store) (console.Record, error) {
		key, err := store.RevokeKey(ctx, c.KeyID)
		return recordOfKey(key), err
	})
}

type keyRotate struct {
	storeFlags
	settings.Keys
	settings.NewKeys
	console.Output
	KeyID   string        `arg:"" name:"key_id" help:"Id of the key, as key list shows it."`
	Overlap time.Duration `default:"24h" help:"How long the old key still works, 0s to 720h; default: ${default}."`
}

// Validate implements kong's check of a command line.
func (c *keyRotate) Validate() error {
	const longest = 30 * 24 * time.Hour
	if c.Overlap < 0 || c.Overlap > longest {
		return fmt.Errorf("--overlap %v is not a time of 0s to %v", c.Overlap, longest)
	}
	return nil
}

func (c *keyRotate) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		key, old, text, err := admin.Admin{Store: store}.RotateKey(ctx, c.KeyPrefix.String(), c.KeyID, c.Overlap, c.KeyMaxDays.N)
		if err != nil {
			return err
		}
		return printNewKey(con, c.Output, key, text, func() string {
			return fmt.Sprintf("The old key, %s, ends at %s.", old.ID, console.Timestamp(*old.RevokedAt))
		})
	})
}
