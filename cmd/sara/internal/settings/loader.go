package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// settingType is the tag type of the flags that are settings, and the name of their mapper.
const settingType = "setting"

// ConfigFlag is the flag that names the settings file.
const ConfigFlag = "config"

// IsSetting reports whether a flag is a setting.
func IsSetting(flag *kong.Value) bool { return flag.Tag.Type == settingType }

// The prefixes of all settings, in the environment and on the command line.
const (
	prefix     = "SARA_"
	flagPrefix = "--"
)

// environmentName returns the variable of a flag.
func environmentName(flag string) string { return prefix + strings.ToUpper(fileName(flag)) }

// fileName returns the entry of a flag in the settings file.
func fileName(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// Loader reads the settings of one command line. Kong finds the text of each setting; Parse then parses the settings of the
// selected command, all of them, so that all wrong ones are reported at once.
type Loader struct {
	environment map[string]string // an empty variable counts as not set
	all         func() []Setting
	file        *settingsFile // nil until it is read
	parsed      *kong.Context // nil until Parse
}

var _ kong.Resolver = (*Loader)(nil)

// NewLoader returns a loader for an environment of the form NAME=VALUE. The function returns the settings of all commands, since they
// share one settings file and one environment. It is called only if there is a file, or a variable that the command does not know.
func NewLoader(environ []string, all func() []Setting) *Loader {
	l := &Loader{environment: make(map[string]string), all: all}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		l.environment[name] = value
	}
	return l
}

// Options are the options of kong that settings require.
func (l *Loader) Options() []kong.Option {
	return []kong.Option{kong.Resolvers(l), kong.NamedMapper(settingType, kong.MapperFunc(setText)), kong.ValueFormatter(describeFlag)}
}

// setText is the mapper of settings. It only stores the text: an error here would hide those of all other settings.
func setText(context *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := context.Scan.PopValueInto("string", &text); err != nil {
		return err
	}
	switch field := target.Addr().Interface().(type) {
	case *string:
		*field = text
	case value:
		field.set(text)
	default:
		return fmt.Errorf("BUG: --%s has a type that is not of a setting", context.Value.Name)
	}
	return nil
}

// describeFlag adds the names in the environment to a setting's help.
func describeFlag(flag *kong.Value) string {
	if !IsSetting(flag) {
		return flag.Help
	}
	names := environmentName(flag.Name)
	if flag.Tag.Has(secretTag) {
		names += " or " + names + secretFileSuffix
	}
	return strings.TrimSuffix(flag.Help, ".") + " (" + names + ")."
}

// Validate implements kong.Resolver.
func (l *Loader) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: it returns the text of a setting that is not on the command line.
func (l *Loader) Resolve(parsed *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	// Read the file even if none of its settings matters, so that a bad file is always reported.
	if l.file == nil {
		var err error
		if l.file, err = l.readFile(l.path(parsed)); err != nil {
			return nil, err
		}
	}
	if !IsSetting(flag.Value) {
		return nil, nil
	}
	text, err := l.variable(flag.Value)
	if text != "" || err != nil {
		return text, err
	}
	if entry := l.file.entries[fileName(flag.Name)]; entry.text != "" {
		return entry.text, nil
	}
	return nil, nil
}

// variable returns what the environment sets: the variable of the setting, or for a setting that may hold a secret, the file that the
// variable with the suffix _FILE names. An orchestrator mounts secrets as files, and a process' environment is easier to read.
func (l *Loader) variable(flag *kong.Value) (string, error) {
	name := environmentName(flag.Name)
	text := l.environment[name]
	if !flag.Tag.Has(secretTag) {
		return text, nil
	}
	path := l.environment[name+secretFileSuffix]
	switch {
	case path == "":
		return text, nil
	case text != "":
		return "", Errorf(name+secretFileSuffix, "%s is set as well: remove one of them", name)
	}
	return readSecret(name+secretFileSuffix, path)
}

// path returns the settings file that the command line or else the environment names. It is empty for a command without
// settings.
func (l *Loader) path(parsed *kong.Context) string {
	path := ""
	for _, flag := range parsed.Flags() {
		if flag.Name == ConfigFlag {
			path = l.environment[environmentName(ConfigFlag)]
		}
	}
	for _, step := range parsed.Path {
		if step.Flag != nil && step.Flag.Name == ConfigFlag {
			path, _ = parsed.FlagValue(step.Flag).(string)
		}
	}
	return path
}

// readFile reads a settings file. An empty path means no settings.
func (l *Loader) readFile(path string) (*settingsFile, error) {
	if path == "" {
		return &settingsFile{}, nil
	}
	return readFile(path, defaults(l.all()))
}

// defaults returns the defaults of settings, by name in the settings file.
func defaults(all []Setting) map[string]string {
	found := make(map[string]string)
	for _, s := range all {
		if s.Flag != ConfigFlag {
			found[fileName(s.Flag)] = s.Default
		}
	}
	return found
}

// A Checker is a command with rules that concern several settings, or settings that are not flags but variables, which getenv
// looks up.
type Checker interface {
	CheckSettings(getenv func(name string) string) error
}

// Parse parses the settings of the command that was selected, and returns an error that joins all their problems.
func (l *Loader) Parse(parsed *kong.Context) error {
	l.parsed = parsed
	errs := l.unknownVariables()
	for flag, v := range l.values() {
		if !v.isSet() {
			if l.onCommandLine(flag.Name) { // such as that of a variable that a script has not set
				errs = append(errs, Errorf(environmentName(flag.Name), "it is empty: leave the flag out, or give it a value"))
			}
			continue
		}
		if s, ok := v.(secret); ok && l.onCommandLine(flag.Name) && s.holdsSecret() {
			errs = append(errs, &Error{Where: environmentName(flag.Name), Problem: "every user of this machine can read the command line of a process: set " +
				environmentName(flag.Name) + ", or let " + environmentName(flag.Name) + secretFileSuffix + " name a file that has it"})
			continue
		}
		if err := v.parse(flag.Tag); err != nil {
			errs = append(errs, &Error{Where: environmentName(flag.Name), Problem: err.Error(), inFile: errors.As(err, new(fileError))})
		}
	}
	if command, ok := parsed.Selected().Target.Addr().Interface().(Checker); ok {
		errs = append(errs, command.CheckSettings(func(name string) string { return l.environment[name] }))
	}
	return l.Locate(errors.Join(errs...))
}

// values yields the settings of the selected command, except for the name of the file.
func (l *Loader) values() func(yield func(*kong.Flag, value) bool) {
	return func(yield func(*kong.Flag, value) bool) {
		for _, flag := range l.parsed.Flags() {
			if !IsSetting(flag.Value) {
				continue
			}
			if v, ok := flag.Target.Addr().Interface().(value); ok && !yield(flag, v) {
				return
			}
		}
	}
}

// Clock returns the clock of the selected command: the real one, unless its settings move it.
func (l *Loader) Clock(now func() time.Time) func() time.Time {
	for _, v := range l.values() {
		if offset, ok := v.(*Offset); ok {
			return offset.Shift(now)
		}
	}
	return now
}

// Effective returns the settings in force by name in the environment, without secrets.
func (l *Loader) Effective() [][]string {
	var rows [][]string
	for flag, v := range l.values() {
		if flag.Hidden && !v.isSet() {
			continue
		}
		shown := flag.Tag.Get("unset")
		if text := fmt.Sprint(v); text != "" {
			shown = text
		}
		rows = append(rows, []string{environmentName(flag.Name), shown})
	}
	return rows
}

// onCommandLine reports whether a flag is given on the command line.
func (l *Loader) onCommandLine(flag string) bool {
	return slices.ContainsFunc(l.parsed.Path, func(step *kong.Path) bool {
		return step.Flag != nil && !step.Resolved && step.Flag.Name == flag
	})
}
