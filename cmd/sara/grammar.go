package main

import (
	"reflect"
	"strings"
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
