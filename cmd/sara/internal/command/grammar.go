package command

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"sara/cmd/sara/internal/settings"
)

// grammar returns the definition of the command line for kong: that of all commands or, if the first arguments name one, of that
// command only. All of them have a thousand flags, which kong takes longer to build than most commands run.
func grammar(args []string) any {
	return reflect.New(narrow(reflect.TypeFor[commands](), args)).Interface()
}

// narrow returns a type of commands with only the one that the first arguments name, or the type itself if they name none.
func narrow(all reflect.Type, args []string) reflect.Type {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return all
	}
	for field := range all.Fields() {
		_, isCommand := field.Tag.Lookup("cmd")
		if isCommand && strings.EqualFold(field.Name, strings.ReplaceAll(args[0], "-", "")) {
			field.Type = narrow(field.Type, args[1:])
			return reflect.StructOf([]reflect.StructField{field})
		}
	}
	return all
}

// allSettings returns the settings of all commands. Kong would take longer to build a model of them than most commands run.
func allSettings() []settings.Setting {
	found := make(map[string]settings.Setting)
	addSettings(found, make(map[reflect.Type]bool), reflect.TypeFor[commands]())
	return slices.Collect(maps.Values(found))
}

// addSettings adds the settings of a command, of the groups that it embeds, and of the commands below, except for those that it has seen:
// most commands embed the same groups.
func addSettings(found map[string]settings.Setting, seen map[reflect.Type]bool, command reflect.Type) {
	if seen[command] {
		return
	}
	seen[command] = true
	for field := range command.Fields() {
		_, isCommand := field.Tag.Lookup("cmd")
		switch {
		case settings.IsSettingField(field):
			found[field.Name] = settings.OfField(field)
		case isCommand, field.Anonymous:
			addSettings(found, seen, field.Type)
		}
	}
}
