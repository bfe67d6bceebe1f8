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
func reference(name, id string, find func(reference string) (foundID string, err error)) string {
	if found, err := find(name); err == nil && found == id && !strings.HasPrefix(name, "-") {
		return name
	}
	return id
}

func accountReference(ctx context.Context, store *sqlstore.Store, name, id string) string {
	return reference(name, id, func(r string) (string, error) {
		a, err := store.Account(ctx, r)
		return a.ID, err
	})
}

func workspaceReference(ctx context.Context, store *sqlstore.Store, name, id string) string {
	return reference(name, id, func(r string) (string, error) {
		w, err := store.Workspace(ctx, r)
		return w.ID, err
	})
}

func connectionReference(ctx context.Context, store *sqlstore.Store, c sqlstore.Connection) string {
	return reference(c.Name, c.ID, func(r string) (string, error) {
		found, err := store.Connection(ctx, r)
		return found.ID, err
	})
}

func propertyReference(ctx context.Context, store *sqlstore.Store, p sqlstore.Property) string {
	return reference(p.Slug, p.ID, func(r string) (string, error) {
		found, err := store.Property(ctx, r)
		return found.ID, err
	})
}
