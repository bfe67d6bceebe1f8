package settings

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// unknownVariables returns an error for each variable that has the prefix of settings but is not one: a misspelt setting would silently
// have its default. Commands without settings ignore the environment.
func (l *Loader) unknownVariables() []error {
	own := variables(Below(l.parsed.Selected()))
	if !own[environmentName(ConfigFlag)] {
		return nil
	}
	unknown := slices.Collect(maps.Keys(l.environment))
	unknown = slices.DeleteFunc(unknown, func(name string) bool {
		return !strings.HasPrefix(name, prefix) || l.environment[name] == "" || own[name] || isForeign(name, l.environment[name])
	})
	if len(unknown) == 0 {
		return nil
	}
	known := variables(l.all()) // those of all commands, which share one environment
	slices.Sort(unknown)
	var errs []error
	for _, name := range unknown {
		if known[name] {
			continue
		}
		if near := nearest(name, known); near != "" {
			errs = append(errs, Errorf(name, "there is no such setting; did you mean %s?", near))
		} else {
			errs = append(errs, Errorf(name, "there is no such setting: remove it; sara serve --help lists the settings"))
		}
	}
	return errs
}

// variables returns the names of settings in the environment.
func variables(all []Setting) map[string]bool {
	names := make(map[string]bool)
	for _, s := range all {
		name := environmentName(s.Flag)
		names[name] = true
		if s.Secret {
			names[name+secretFileSuffix] = true
		}
	}
	return names
}

// isForeign reports whether a variable with the prefix is set by another program: by Kubernetes, for each Service whose name begins
// with sara, or for the tests of sara, which start it with their own environment.
func isForeign(name, value string) bool {
	service := regexp.MustCompile(`^SARA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	port := regexp.MustCompile(`^SARA_(\w+_)?PORT$`)
	test := regexp.MustCompile(`^SARA_(TEST_\w+|BINARY|ALL|WORLD|WORLDS|WORLDS_SEED|DEMO_WORLD|SCREENSHOTS|BENCH_\w+)$`)
	return service.MatchString(name) || test.MatchString(name) || port.MatchString(name) && strings.Contains(value, "://")
}

// nearest returns the known name that a misspelt one most probably means; empty if none is near.
func nearest(name string, known map[string]bool) string {
	best, least := "", 1+len(name)/6
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		if d := distance(name, candidate); d <= least {
			best, least = candidate, d-1
		}
	}
	if best != "" {
		return best
	}
	for _, candidate := range slices.Sorted(maps.Keys(known)) { // such as SARA_REDIS, or SARA_LISTEN_ADDRESS
		if strings.HasPrefix(candidate, name+"_") || strings.HasPrefix(name, candidate+"_") {
			return candidate
		}
	}
	return ""
}

// distance is how many letters have to be inserted, deleted or replaced to turn a into b (the Levenshtein distance).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			row[j+1], diagonal = min(replace, above+1, row[j]+1), above
		}
	}
	return row[len(b)]
}
