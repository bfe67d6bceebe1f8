package policy

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Plan is what an account pays for. The limits carry the names that the account endpoint shows.
type Plan struct {
	APIAccess                     bool `yaml:"api_access"`                         // false: 403 API_ACCESS_REQUIRED
	Keys                          int  `yaml:"keys"`                               // most working keys of an account
	RequestsPerMinutePerKey       int  `yaml:"requests_per_minute_per_key"`        // burst of one key
	RequestsPerHour               int  `yaml:"requests_per_hour"`                  // of the account
	RequestsPerDay                int  `yaml:"requests_per_day"`                   // of the account, UTC
	SearchConsoleCallsPerDay      int  `yaml:"search_console_calls_per_day"`       // of the account, UTC
	LiveCallsPerMinutePerProperty int  `yaml:"live_calls_per_minute_per_property"` // of one property
	RetentionMonths               int  `yaml:"retention_months"`                   // how far back ranges may reach
	InspectedURLsPerProperty      int  `yaml:"inspected_urls_per_property"`        // cap of an indexing collection
}

// Plans is the plan table: plans by name. A name that is not in it has no access.
type Plans map[string]Plan

// DefaultPlans returns the built-in plan table (spec: Limits 1 and 3, Authentication 6).
func DefaultPlans() Plans {
	return Plans{
		"pro": {
			APIAccess: true, Keys: 3,
			RequestsPerMinutePerKey: 20, RequestsPerHour: 250, RequestsPerDay: 1000,
			SearchConsoleCallsPerDay: 250, LiveCallsPerMinutePerProperty: 30,
			RetentionMonths: 36, InspectedURLsPerProperty: 2000,
		},
		"agency": {
			APIAccess: true, Keys: 10,
			RequestsPerMinutePerKey: 60, RequestsPerHour: 1000, RequestsPerDay: 5000,
			SearchConsoleCallsPerDay: 1000, LiveCallsPerMinutePerProperty: 30,
			RetentionMonths: 60, InspectedURLsPerProperty: 10_000,
		},
		"trial": {RetentionMonths: 16},
		"none":  {RetentionMonths: 16},
	}
}

// ReadPlans reads a plan table in YAML, a mapping plans of names to the members of Plan. It replaces the built-in table as
// a whole; a member that it does not know, or a limit that cannot be, is an error.
func ReadPlans(r io.Reader) (Plans, error) {
	var file struct {
		Plans Plans `yaml:"plans"`
	}
	decoder := yaml.NewDecoder(r)
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the plan table: %w", planError(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the plan table: it goes on after its first document")
	}
	if len(file.Plans) == 0 {
		return nil, errors.New("read the plan table: it has no plans; it is a mapping plans: {pro: {api_access: true, keys: 3, …}}")
	}
	for name, plan := range file.Plans {
		if err := plan.check(); err != nil {
			return nil, fmt.Errorf("plan %s: %w", name, err)
		}
	}
	return file.Plans, nil
}

// planError is the decoder's error with the members that there are in place of the names of Go's types.
func planError(err error) error {
	wrong := (*yaml.TypeError)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	places := make([]string, len(wrong.Errors))
	for i, e := range wrong.Errors {
		e, _, _ = strings.Cut(e, " in type ")
		places[i], _, _ = strings.Cut(e, " into ")
	}
	return errors.New(strings.Join(places, "; ") + "; a table is a mapping plans of names to api_access (true or false) and" +
		" the numbers keys, requests_per_minute_per_key, requests_per_hour, requests_per_day, search_console_calls_per_day," +
		" live_calls_per_minute_per_property, retention_months, inspected_urls_per_property")
}

func (p Plan) check() error {
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"keys", p.Keys},
		{"requests_per_minute_per_key", p.RequestsPerMinutePerKey},
		{"requests_per_hour", p.RequestsPerHour},
		{"requests_per_day", p.RequestsPerDay},
		{"search_console_calls_per_day", p.SearchConsoleCallsPerDay},
		{"live_calls_per_minute_per_property", p.LiveCallsPerMinutePerProperty},
		{"retention_months", p.RetentionMonths},
		{"inspected_urls_per_property", p.InspectedURLsPerProperty},
	} {
		const most = 1_000_000_000
		if limit.value < 0 || limit.value > most || p.APIAccess && limit.value == 0 {
			return fmt.Errorf("%s is %d: a plan with api_access takes 1 to %d, one without may leave it out", limit.name, limit.value, most)
		}
	}
	return nil
}
