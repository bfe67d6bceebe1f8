package command

import (
	"maps"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sara/cmd/sara/internal/settings"
)

// leavesOf returns the paths of the commands of a grammar.
func leavesOf(t *testing.T, args []string) (paths []string) {
	t.Helper()
	parser, err := kong.New(grammar(args), settings.NewLoader(nil, nil).Options()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		paths = append(paths, leaf.Path())
	}
	return paths
}

func TestGrammarIsNarrowedToTheCommand(t *testing.T) {
	t.Parallel()
	all := leavesOf(t, nil)
	if len(all) < 50 {
		t.Fatalf("there are %d commands: %v", len(all), all)
	}
	for _, path := range all {
		words := strings.Fields(path)
		if got := leavesOf(t, append(words, "--json")); len(got) != 1 || got[0] != path {
			t.Errorf("the grammar of %q has the commands %v", path, got)
		}
	}
	for args, want := range map[string]int{"frobnicate": len(all), "--help account add": len(all), "account": 4, "account frobnicate": 4,
		"account --json list": 4} {
		if got := leavesOf(t, strings.Fields(args)); len(got) != want {
			t.Errorf("the grammar of %q has the commands %v, want %d", args, got, want)
		}
	}
}

// All settings are those of kong's model of all commands.
func TestAllSettingsAreThoseOfTheCommands(t *testing.T) {
	t.Parallel()
	byFlag := func(all []settings.Setting) map[string]settings.Setting {
		found := make(map[string]settings.Setting)
		for _, s := range all {
			found[s.Flag] = s
		}
		return found
	}
	want := byFlag(settings.Below(allCommands(settings.NewLoader(nil, nil))))
	if got := byFlag(allSettings()); !maps.Equal(got, want) || len(want) < 30 {
		t.Errorf("the settings are %v, want %v", got, want)
	}
}
