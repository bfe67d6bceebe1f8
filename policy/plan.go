package policy

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Plan is what an account pays for: access to the API, and its limits. The YAML names are those of the account endpoint.
type Plan struct {
	APIAccess                     bool `yaml:"api_access"`                         // false: 403 API_ACCESS_REQUIRED
	Keys                          int  `yaml:"keys"`                               // keys of an account that are neither revoked nor expired
	RequestsPerMinutePerKey       int  `yaml:"requests_per_minute_per_key"`        // rate and burst of one key
	RequestsPerHour               int  `yaml:"requests_per_hour"`                  // per account and calendar hour
	RequestsPerDay                int  `yaml:"requests_per_day"`                   // per account and UTC day
	SearchConsoleCallsPerDay      int  `yaml:"search_console_calls_per_day"`       // live calls per account and UTC day
	LiveCallsPerMinutePerProperty int  `yaml:"live_calls_per_minute_per_property"` // rate and burst of one property
	RetentionMonths               int  `yaml:"retention_months"`                   // how far back a request may reach
	InspectedURLsPerProperty      int  `yaml:"inspected_urls_per_property"`        // how many URLs of a property are inspected
}

// Plans is the plan table: plans by name. A plan that is not in it has no access.
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

// ReadPlans reads a plan table in YAML: {plans: {NAME: the fields of Plan}}. The result replaces the built-in table; the two
// are not merged. An unknown field or an impossible limit is an error.
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
		return nil, errors.New("read the plan table: it has more than one YAML document")
	}
	if len(file.Plans) == 0 {
		return nil, errors.New("read the plan table: it has no plans; write plans: {pro: {api_access: true, keys: 3, …}}")
	}
	for name, plan := range file.Plans {
		if err := plan.check(); err != nil {
			return nil, fmt.Errorf("plan %s: %w", name, err)
		}
	}
	return file.Plans, nil
}

// planError replaces the names of Go types in the decoder's error with the fields that a plan can have.
func planError(err error) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	problems := make([]string, len(typeError.Errors))
	for i, e := range typeError.Errors {
		e, _, _ = strings.Cut(e, " in type ")
		problems[i], _, _ = strings.Cut(e, " into ")
	}
	return errors.New(strings.Join(problems, "; ") + "; a plan table maps plan names to api_access (true or false) and" +
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
		const largest = 1_000_000_000
		if limit.value < 0 || limit.value > largest || p.APIAccess && limit.value == 0 {
			return fmt.Errorf("%s is %d: use 1 to %d; a plan without api_access may omit it", limit.name, limit.value, largest)
		}
	}
	return nil
}
