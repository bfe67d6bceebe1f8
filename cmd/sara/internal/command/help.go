package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sara/cmd/sara/internal/settings"
)

// explain completes the help of all commands: those that can be run show an example, and their own flags come before the settings,
// which most commands share.
func explain(k *kong.Kong) error {
	group := &kong.Group{Key: "settings", Title: "Settings, which the environment or the file of --config can have as well:"}
	withoutFile := &kong.Group{Key: "settings", Title: "Settings, which the environment can have as well:"}
	var explainNode func(*kong.Node)
	explainNode = func(node *kong.Node) {
		title := withoutFile
		if slices.ContainsFunc(node.Flags, func(flag *kong.Flag) bool { return flag.Name == "config" }) {
			title = group
		}
		for _, flag := range node.Flags {
			if settings.IsSetting(flag.Value) {
				flag.Group = title
			}
		}
		if example := exampleOf(node); example != "" {
			node.Detail = strings.TrimSpace(node.Detail + "\n\nExample:\n\n    " + example)
		}
		for _, child := range node.Children {
			explainNode(child)
		}
	}
	explainNode(k.Model.Node)
	k.Model.HelpFlag.Help = "Show this help."
	return nil
}

// exampleOf returns a command line that uses a command; empty for a group of commands.
func exampleOf(node *kong.Node) string {
	if node.Tag == nil {
		return ""
	}
	return node.Tag.Get("example")
}

// versionFlag prints the version instead of running a command.
type versionFlag bool

// BeforeReset implements a hook of kong, which runs before the command line is checked.
func (versionFlag) BeforeReset(app *kong.Kong, build versionRecord) error {
	if _, err := fmt.Fprintln(app.Stdout, build); err != nil {
		return err
	}
	app.Exit(ExitOK)
	return nil
}
