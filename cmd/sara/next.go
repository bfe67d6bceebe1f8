package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
)

// next tells a person what comes next: a sentence, and command lines that can be pasted. Programs are not told.
func (con *console) next(o output, what string, commands ...string) {
	if o.JSON {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nNext: %s\n\n", what)
	for _, command := range commands {
		fmt.Fprintf(&text, "  %s%s%s\n", con.program, strings.TrimPrefix(command, programName), con.repeated)
	}
	_, _ = fmt.Fprint(con.stderr, text.String()) // who does not hear it has what was asked for
}

const programName = "sara"

// callable is how to call the program again that was called so: by its path, unless it was found by its name, or is one of
// those that go run forgets.
func callable(called string) string {
	if !strings.Contains(called, "/") || strings.Contains(called, "/go-build") {
		return programName
	}
	return quoted(called)
}

// commandLine is a command line of sara with its arguments quoted where a shell needs it. Words in capitals are for the reader
// to fill in.
func commandLine(args ...string) string {
	var line strings.Builder
	line.WriteString(programName)
	for _, arg := range args {
		line.WriteString(" " + quoted(arg))
	}
	return line.String()
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// repeatedFlags returns the settings of the command line that every command takes, so that what comes next means the same
// database. One that may be secret is left out.
func repeatedFlags(parsed *kong.Context) string {
	var flags strings.Builder
	for _, step := range parsed.Path {
		if step.Flag == nil || step.Resolved || step.Flag.Name != settings.ConfigFlag && step.Flag.Name != "database-url" {
			continue
		}
		switch value := step.Flag.Target.Interface().(type) {
		case string: // the file
			flags.WriteString(" --" + step.Flag.Name + " " + quoted(value))
		case settings.Database:
			if value.File != "" || value.String() == value.URL() {
				flags.WriteString(" --" + step.Flag.Name + " " + quoted(value.URL()))
			}
		}
	}
	return flags.String()
}

// reference is how to call something: by its name if that means nothing else, or else by its id.
func reference(name, id string, find func(reference string) (foundID string, err error)) string {
	if found, err := find(name); err == nil && found == id && !strings.HasPrefix(name, "-") {
		return name
	}
	return id
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
