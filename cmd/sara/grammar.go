package main

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
	for i := range all.NumField() {
		field := all.Field(i)
		_, isCommand := field.Tag.Lookup("cmd")
		if isCommand && strings.EqualFold(field.Name, strings.ReplaceAll(args[0], "-", "")) {
			field.Type = narrow(field.Type, args[1:])
			return reflect.StructOf([]reflect.StructField{field})
		}
	}
	return all
}

// settingsGrammar returns the definition of a command that has each setting of all commands once.
func settingsGrammar() any {
	fields := make(map[string]reflect.StructField)
	addSettings(fields, reflect.TypeFor[commands]())
	byName := func(a, b reflect.StructField) int { return strings.Compare(a.Name, b.Name) }
	return reflect.New(reflect.StructOf(slices.SortedFunc(maps.Values(fields), byName))).Interface()
}

// addSettings adds the settings of a command, of the groups that it embeds, and of the commands below.
func addSettings(fields map[string]reflect.StructField, command reflect.Type) {
	for i := range command.NumField() {
		field := command.Field(i)
		_, isCommand := field.Tag.Lookup("cmd")
		switch {
		case settings.IsSettingField(field):
			fields[field.Name] = field
		case isCommand, field.Anonymous:
			addSettings(fields, field.Type)
		}
	}
}
