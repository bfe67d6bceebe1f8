package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/settings"
)

// removeFlags are the flags of every command that removes something with all that hangs below it.
type removeFlags struct {
	storeFlags
	settings.Archive
	console.Output
	Yes bool `help:"Do not ask; required where there is no terminal."`
}

type (
	accountRemove struct {
		removeFlags
		Account string `arg:"" help:"Name or id."`
	}
	workspaceRemove struct {
		removeFlags
		Workspace string `arg:"" help:"Name, ACCOUNT/NAME or id."`
	}
	personRemove struct {
		removeFlags
		Email string `arg:"" help:"Email address or id."`
	}
	connectionRemove struct {
		removeFlags
		Connection string `arg:"" help:"Name, WORKSPACE/NAME, ACCOUNT/WORKSPACE/NAME or id."`
	}
	propertyRemove struct {
		removeFlags
		Property string `arg:"" help:"Id, Search Console property, slug or domain."`
	}
)

func (c *accountRemove) Run(ctx context.Context, con *console.Console) error {
	return c.remove(ctx, con, sqlstore.KindAccount, c.Account)
}

func (c *workspaceRemove) Run(ctx context.Context, con *console.Console) error {
	return c.remove(ctx, con, sqlstore.KindWorkspace, c.Workspace)
}

func (c *personRemove) Run(ctx context.Context, con *console.Console) error {
	return c.remove(ctx, con, sqlstore.KindPerson, c.Email)
}

func (c *connectionRemove) Run(ctx context.Context, con *console.Console) error {
	return c.remove(ctx, con, sqlstore.KindConnection, c.Connection)
}

func (c *propertyRemove) Run(ctx context.Context, con *console.Console) error {
	return c.remove(ctx, con, sqlstore.KindProperty, c.Property)
}

// removedRecord is what was removed, with numbers of what went with it.
type removedRecord struct {
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Workspaces  int    `json:"workspaces"`
	People      int    `json:"people"`
	Connections int    `json:"connections"`
	Properties  int    `json:"properties"`
	Keys        int    `json:"keys"`
	Objects     int    `json:"archive_objects"` // deleted from the archive
}

func (r removedRecord) Columns() []console.Column {
	return []console.Column{{"REMOVED", r.Kind}, {"NAME", r.Name}, {"WITH", r.parts()}, {"ID", r.ID}}
}

func recordOfRemoval(r *sqlstore.Removal) removedRecord {
	return removedRecord{Kind: r.Kind, ID: r.ID, Name: r.Name, Workspaces: len(r.Workspaces), People: len(r.People),
		Connections: len(r.Connections), Properties: len(r.Properties), Keys: len(r.Keys)}
}

// parts says what goes with it.
func (r removedRecord) parts() string {
	var parts []string
	for _, part := range []struct {
		kind     string
		n        int
		singular string
		plural   string
	}{
		{sqlstore.KindWorkspace, r.Workspaces, "workspace", ""},
		{sqlstore.KindPerson, r.People, "person", "people"},
		{sqlstore.KindConnection, r.Connections, "connection", ""},
		{sqlstore.KindProperty, r.Properties, "property", ""},
		{"", r.Keys, "key", ""},
		{"", r.Objects, "object of the archive", "objects of the archive"},
	} {
		if part.n > 0 && part.kind != r.Kind {
			parts = append(parts, english.Plural(part.n, part.singular, part.plural))
		}
	}
	return english.OxfordWordSeries(parts, "and")
}

// question asks whether to remove it.
func (r removedRecord) question() string {
	var q strings.Builder
	fmt.Fprintf(&q, "This removes %s %q", r.Kind, r.Name)
	if parts := r.parts(); parts != "" {
		q.WriteString(", with " + parts)
	}
	if r.Properties > 0 {
		q.WriteString(", and deletes the archived history")
	}
	q.WriteString(". It cannot be undone.")
	return q.String()
}

// remove asks, removes, and deletes the archived history of what was removed.
func (f removeFlags) remove(ctx context.Context, con *console.Console, kind, reference string) error {
	return f.use(ctx, con, func(store *sqlstore.Store) error {
		plan, err := store.PlanRemoval(ctx, kind, reference)
		if err != nil {
			return err
		}
		if !f.Yes {
			if err := con.Confirm(ctx, recordOfRemoval(plan).question(), plan.Name); err != nil {
				return err
			}
		}
		removed, err := store.Remove(ctx, kind, plan.ID)
		if err != nil {
			return err
		}
		record := recordOfRemoval(removed)
		if len(removed.Properties) > 0 {
			record.Objects, err = f.erase(ctx, con, store)
		}
		if printErr := console.One(f.Output, con.Stdout, record); printErr != nil {
			return printErr
		}
		if err != nil {
			return fmt.Errorf("it is removed, but some of its archived history is not deleted yet: run %s: %w", console.CommandLine("archive", "sweep"), err)
		}
		return nil
	})
}

// erase deletes the archived history of removed properties, with a progress bar on a terminal.
func (f removeFlags) erase(ctx context.Context, con *console.Console, store *sqlstore.Store) (objects int, err error) {
	history, err := backend.OpenArchive(f.Archive, con.Now)
	if err != nil {
		return 0, err
	}
	advance, end := newCountBar(con.Stderr, -1, progressbar.OptionSetDescription("deleting archived history"))
	defer end()
	err = jobs.Erase(ctx, store, history, con.Now(), func(e jobs.Erased) {
		objects += e.Objects
		advance()
	})
	return objects, err
}

type archiveSweep struct {
	storeFlags
	settings.Archive
	console.Output
}

// sweptRecord is a removed property whose history was looked for.
type sweptRecord struct {
	ID        string `json:"id"`
	RemovedAt string `json:"removed_at"`
	Objects   int    `json:"archive_objects"` // deleted now
	Error     string `json:"error"`           // empty if nothing is left
}

func (r sweptRecord) Columns() []console.Column {
	return []console.Column{{"PROPERTY", r.ID}, {"REMOVED", r.RemovedAt}, {"DELETED OBJECTS", fmt.Sprint(r.Objects)}, {"ERROR", r.Error}}
}

func (c *archiveSweep) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		history, err := backend.OpenArchive(c.Archive, con.Now)
		if err != nil {
			return err
		}
		records := []sweptRecord{}
		err = jobs.Erase(ctx, store, history, con.Now(), func(e jobs.Erased) {
			r := sweptRecord{ID: e.ID, RemovedAt: console.Timestamp(e.RemovedAt), Objects: e.Objects}
			if e.Err != nil {
				r.Error = e.Err.Error()
			}
			records = append(records, r)
		})
		if printErr := console.Many(c.Output, con.Stdout, records); printErr != nil {
			return printErr
		}
		return err
	})
}
