package policy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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

// DefaultPlans returns the built-in plan table (spec: Limits 1 and 3, Authentication 6). The plan own is not on a price list: it is
// for those who run sara for themselves, and limits only what Search Console and the machine cannot bear.
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
		"own": {
			APIAccess: true, Keys: 1000,
			// A thousand requests a second and key; hour and day are the same rate.
			RequestsPerMinutePerKey: 60_000, RequestsPerHour: 3_600_000, RequestsPerDay: 86_400_000,
			// Search Console answers 1,200 queries a minute for a user, which is this many a day, and as many for a site, of which half
			// are left to the collector.
			SearchConsoleCallsPerDay: 1_728_000, LiveCallsPerMinutePerProperty: 600,
			// Search Console inspects 2,000 URLs of a property a day: these once a week.
			RetentionMonths: 240, InspectedURLsPerProperty: 14_000,
		},
		"trial": {RetentionMonths: 16},
		"none":  {RetentionMonths: 16},
	}
}

// A planField is a member of a plan in YAML: api_access, or a limit.
type planField struct {
	name   string
	access *bool
	limit  *int
}

// fields returns the members of a plan, in the order of the documentation.
func (p *Plan) fields() []planField {
	return []planField{
		{"api_access", &p.APIAccess, nil},
		{"keys", nil, &p.Keys},
		{"requests_per_minute_per_key", nil, &p.RequestsPerMinutePerKey},
		{"requests_per_hour", nil, &p.RequestsPerHour},
		{"requests_per_day", nil, &p.RequestsPerDay},
		{"search_console_calls_per_day", nil, &p.SearchConsoleCallsPerDay},
		{"live_calls_per_minute_per_property", nil, &p.LiveCallsPerMinutePerProperty},
		{"retention_months", nil, &p.RetentionMonths},
		{"inspected_urls_per_property", nil, &p.InspectedURLsPerProperty},
	}
}

// ReadPlans reads plans in YAML, {plans: {NAME: {FIELD: VALUE}}}, over the built-in table: a plan of that table keeps the fields
// that the file does not name, and the plans that it does not name stay. An unknown field or an impossible limit is an error, which
// names the plan and the field.
func ReadPlans(r io.Reader) (Plans, error) {
	var file struct {
		Plans map[string]map[string]yaml.Node `yaml:"plans"`
	}
	decoder := yaml.NewDecoder(r)
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the plans: %w", planError(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the plans: the file has more than one YAML document")
	}
	if len(file.Plans) == 0 {
		return nil, errors.New("read the plans: the file has none; " + planForm)
	}
	plans := DefaultPlans()
	for _, name := range slices.Sorted(maps.Keys(file.Plans)) {
		plan := plans[name]
		if err := plan.set(file.Plans[name]); err != nil {
			return nil, fmt.Errorf("plan %s: %w", name, err)
		}
		plans[name] = plan
	}
	return plans, nil
}

const planForm = "write plans: {own: {requests_per_day: 5000}}"

// planError replaces the names of Go types in the decoder's error with the form of the file.
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
	return errors.New(strings.Join(problems, "; ") + "; " + planForm)
}

// set sets the fields that the file names, and checks the plan.
func (p *Plan) set(values map[string]yaml.Node) error {
	fields := p.fields()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		at := slices.IndexFunc(fields, func(f planField) bool { return f.name == name })
		if at < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.name
			}
			return fmt.Errorf("line %d: there is no field %s; the fields are %s", value.Line, name, strings.Join(names, ", "))
		}
		if access := fields[at].access; access != nil && decode(value, access) != nil {
			return fmt.Errorf("line %d: %s is %q: write true or false", value.Line, name, value.Value)
		}
		if limit := fields[at].limit; limit != nil && decode(value, limit) != nil {
			return fmt.Errorf("line %d: %s is %q: write a whole number", value.Line, name, value.Value)
		}
	}
	return p.check()
}

// decode decodes a node into a field. Node.Decode takes null, too, and leaves the field as it is.
func decode(value yaml.Node, field any) error {
	if value.ShortTag() == "!!null" {
		return errors.New("it is null")
	}
	return value.Decode(field)
}

func (p *Plan) check() error {
	for _, f := range p.fields() {
		const largest = 1_000_000_000
		if f.limit != nil && (*f.limit < 0 || *f.limit > largest || p.APIAccess && *f.limit == 0) {
			return fmt.Errorf("%s is %d: use 1 to %d; a plan without api_access may omit it", f.name, *f.limit, largest)
		}
	}
	return nil
}
