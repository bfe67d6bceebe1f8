package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// The settings, in groups by who needs them. Their flags carry the tag setting, which makes --database-url the setting
// SARA_DATABASE_URL of the environment and database_url of the file. They are texts here; settings_check.go reads them.

type fileSetting struct {
	Config string `setting:"" placeholder:"FILE" help:"YAML file with settings, by names such as database_url."`
}

type storeSettings struct {
	DatabaseURL string `setting:"" default:"sqlite:sara-data/sara.db" placeholder:"URL" help:"sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE; ${default} if not set."`
	SecretKey   string `setting:"" placeholder:"BASE64" help:"32 bytes in base64 that encrypt the stored credentials."`
	RedisURL    string `setting:"" placeholder:"URL" help:"redis://USER:PASSWORD@HOST:PORT, with master_name for a Sentinel or addr for a cluster; needed to serve with several processes."`
}

type archiveSettings struct {
	ArchiveURL string `setting:"" default:"sara-data/archive" placeholder:"URL" help:"Where the history is kept: a folder, file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME with credentials as the AWS tools find them; ${default} if not set."`
}

type replicaSettings struct {
	Replicas string `setting:"" default:"1" placeholder:"N" help:"How many processes serve: each gives out its share while Redis is away; ${default} if not set."`
}

type cacheSettings struct {
	CacheBytes string `setting:"" default:"256MiB" placeholder:"SIZE" help:"Most memory that cached answers take, such as 64MiB or 2GiB; ${default} if not set."`
}

type upstreamSettings struct {
	UpstreamURL   string `setting:"" default:"https://searchconsole.googleapis.com" placeholder:"URL" help:"Base of the Search Console API; Google's if not set."`
	OAuthTokenURL string `setting:"" name:"oauth-token-url" default:"https://oauth2.googleapis.com/token" placeholder:"URL" help:"Token endpoint for authorized_user credentials; Google's if not set."`
}

type planSettings struct {
	PlansFile string `setting:"" placeholder:"FILE" help:"YAML that replaces the built-in plan table."`
}

type keySettings struct {
	KeyPrefix string `setting:"" default:"sara" placeholder:"WORD" help:"Keys are WORD_live_SECRET; ${default} if not set."`
}

type addressSettings struct {
	Listen  string `setting:"" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the public API, port 0 for any free one; ${default} if not set."`
	BaseURL string `setting:"" placeholder:"URL" help:"Address by which clients reach the API; the listener's if not set."`
}

type adminSettings struct {
	AdminListen string `setting:"" default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Address of /metrics, /livez, /readyz and pprof; ${default} if not set."`
}

type edgeSettings struct {
	adminSettings
	DocsURL            string `setting:"" placeholder:"URL" help:"What errors call their documentation; the reference at /docs if not set."`
	TrustedProxyHeader string `setting:"" placeholder:"NAME" help:"Header in which the proxy in front puts the client's address; the peer's address if not set."`
	ShutdownDelay      string `setting:"" default:"0s" placeholder:"TIME" help:"How long to answer on, but not be ready, after being told to stop; ${default} if not set."`
}

type logSettings struct {
	LogLevel  string `setting:"" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error; ${default} if not set."`
	LogFormat string `setting:"" default:"text" placeholder:"FORMAT" help:"text or json; ${default} if not set."`

	AccessLogSample string `setting:"" default:"1" placeholder:"SHARE" help:"Share of the requests that were answered well whose lines are logged, of 0 to 1; errors all are. ${default} if not set."`
}

const settingTag = "setting"

func settingName(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

func environmentName(flag string) string { return "SARA_" + strings.ToUpper(settingName(flag)) }

// describeFlag adds the name in the environment to a setting's help.
func describeFlag(value *kong.Value) string {
	if !value.Tag.Has(settingTag) {
		return value.Help
	}
	return strings.TrimSuffix(value.Help, ".") + " (" + environmentName(value.Name) + ")."
}

// A settingError says what is wrong with a setting, or with where settings come from, and how it has to be.
type settingError struct {
	Where   string // the setting's name in the environment, or a file
	Problem string
	origin  string // where a setting that is not from the environment comes from; empty until it is found out
}

func (e *settingError) Error() string {
	if e.origin != "" {
		return fmt.Sprintf("%s (%s): %s", e.Where, e.origin, e.Problem)
	}
	return e.Where + ": " + e.Problem
}

func wrongSetting(where, format string, args ...any) error {
	return &settingError{Where: where, Problem: fmt.Sprintf(format, args...)}
}

// sources gives the settings that are not on the command line their values. A variable that is empty counts as not set.
type sources struct {
	environment map[string]string
	file        *settingsFile // nil until it is read
}

var _ kong.Resolver = (*sources)(nil)

func newSources(environ []string) *sources {
	s := &sources{environment: make(map[string]string)}
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "SARA_") {
			s.environment[name] = value
		}
	}
	return s
}

// Validate implements kong.Resolver.
func (s *sources) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (s *sources) Resolve(parsed *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	// The file is read before anything is asked of it, so that a bad one is found out even if it would not matter.
	if s.file == nil {
		var err error
		if s.file, err = readSettings(s.path(parsed), knownSettings(parsed.Model.Node)); err != nil {
			return nil, err
		}
	}
	if !flag.Tag.Has(settingTag) {
		return nil, nil
	}
	if value := s.environment[environmentName(flag.Name)]; value != "" {
		return value, nil
	}
	if set := s.file.settings[settingName(flag.Name)]; set.value != "" {
		return set.value, nil
	}
	return nil, nil
}

// locate notes in the setting errors that err is made of where their settings come from.
func (s *sources) locate(parsed *kong.Context, err error) {
	switch e := err.(type) {
	case *settingError:
		e.origin = s.origin(parsed, e.Where)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			s.locate(parsed, one)
		}
	case interface{ Unwrap() error }:
		s.locate(parsed, e.Unwrap())
	}
}

// origin says where the setting of that name in the environment comes from, nothing if from there, which its name says.
func (s *sources) origin(parsed *kong.Context, name string) string {
	for _, step := range parsed.Path {
		if step.Flag != nil && !step.Resolved && environmentName(step.Flag.Name) == name {
			return "--" + step.Flag.Name
		}
	}
	if s.environment[name] != "" || s.file == nil {
		return ""
	}
	short := strings.ToLower(strings.TrimPrefix(name, "SARA_"))
	if set := s.file.settings[short]; set.value != "" {
		return fmt.Sprintf("%s, line %d", s.file.path, set.line)
	}
	if knownSettings(parsed.Model.Node)[short] != "" {
		return "by default"
	}
	return ""
}

const configFlag = "config"

// path returns the settings file that the command line or else the environment names, empty for a command without
// settings.
func (s *sources) path(parsed *kong.Context) string {
	path := ""
	for _, flag := range parsed.Flags() {
		if flag.Name == configFlag {
			path = s.environment[environmentName(configFlag)]
		}
	}
	for _, step := range parsed.Path {
		if step.Flag != nil && step.Flag.Name == configFlag {
			path, _ = parsed.FlagValue(step.Flag).(string)
		}
	}
	return path
}

// knownSettings returns the settings of all commands, since they share one file, with their defaults by name.
func knownSettings(node *kong.Node) map[string]string {
	known := make(map[string]string)
	for _, flag := range node.Flags {
		if flag.Tag.Has(settingTag) && flag.Name != configFlag {
			known[settingName(flag.Name)] = flag.Default
		}
	}
	for _, child := range node.Children {
		maps.Copy(known, knownSettings(child))
	}
	return known
}

// A settingsFile is what a YAML file sets.
type settingsFile struct {
	path     string
	settings map[string]fileValue
}

// fileValue is the value of a setting, and the line that it is on.
type fileValue struct {
	value string
	line  int
}

// readSettings reads a YAML mapping of setting names to single values; an empty path means no settings.
func readSettings(path string, known map[string]string) (*settingsFile, error) {
	file := &settingsFile{path: path, settings: make(map[string]fileValue)}
	if path == "" {
		return file, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, wrongSetting("SARA_CONFIG", "%v; name a YAML file with settings, such as listen: 127.0.0.1:8080", err)
	}
	// Not into a map: that decoder's errors quote values, which may be secrets.
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, wrongSetting(path, "%v; settings are written like listen: 127.0.0.1:8080", err)
	}
	if len(document.Content) == 0 {
		return file, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, wrongSetting(path, "it is not a YAML mapping of settings, such as listen: 127.0.0.1:8080")
	}
	var errs []error
	unknown := false
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if _, ok := known[name.Value]; !ok {
			unknown = true
			errs = append(errs, wrongSetting(path, "line %d: unknown setting %q", name.Line, name.Value))
			continue
		}
		errs = append(errs, file.add(name, value))
	}
	if unknown {
		errs = append(errs, wrongSetting(path, "the settings are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
	}
	return file, errors.Join(errs...)
}

// add takes over one entry of the file.
func (f *settingsFile) add(name, value *yaml.Node) error {
	before, twice := f.settings[name.Value]
	switch {
	case twice:
		return wrongSetting(f.path, "line %d: setting %s is there twice; leave out this one or that of line %d", name.Line, name.Value, before.line)
	case value.Kind != yaml.ScalarNode:
		return wrongSetting(f.path, "line %d: setting %s is not a single value; write it like %s: VALUE", name.Line, name.Value, name.Value)
	case value.Tag == "!!null":
		f.settings[name.Value] = fileValue{line: name.Line}
	default:
		f.settings[name.Value] = fileValue{value.Value, name.Line}
	}
	return nil
}
