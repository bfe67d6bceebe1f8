package command

import (
	"context"
	"strings"

	"github.com/alecthomas/kong"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

// repeatedFlags returns the flags of the command line that hints repeat, so that the next command uses the same database. A
// value that may be secret is left out.
func repeatedFlags(parsed *kong.Context) string {
	var flags strings.Builder
	for _, step := range parsed.Path {
		if step.Flag == nil || step.Resolved || step.Flag.Name != settings.ConfigFlag && step.Flag.Name != "database-url" {
			continue
		}
		switch value := step.Flag.Target.Interface().(type) {
		case string: // the file
			flags.WriteString(" --" + step.Flag.Name + " " + console.Quote(value))
		case settings.Database:
			if value.File != "" || value.String() == value.URL() {
				flags.WriteString(" --" + step.Flag.Name + " " + console.Quote(value.URL()))
			}
		}
	}
	return flags.String()
}

// reference returns the name of an object if it is unambiguous, and else its id.
func reference[T any](ctx context.Context, name, id string, find func(ctx context.Context, reference string) (T, error), idOf func(T) string) string {
	if found, err := find(ctx, name); err == nil && idOf(found) == id && !strings.HasPrefix(name, "-") {
		return name
	}
	return id
}

func accountReference(ctx context.Context, store *sqlstore.Store, name, id string) string {
	return reference(ctx, name, id, store.Account, func(a sqlstore.Account) string { return a.ID })
}

func workspaceReference(ctx context.Context, store *sqlstore.Store, name, id string) string {
	return reference(ctx, name, id, store.Workspace, func(w sqlstore.Workspace) string { return w.ID })
}

func connectionReference(ctx context.Context, store *sqlstore.Store, c sqlstore.Connection) string {
	return reference(ctx, c.Name, c.ID, store.Connection, func(c sqlstore.Connection) string { return c.ID })
}

func propertyReference(ctx context.Context, store *sqlstore.Store, p sqlstore.Property) string {
	return reference(ctx, p.Slug, p.ID, store.Property, func(p sqlstore.Property) string { return p.ID })
}
