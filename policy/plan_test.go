package policy

import (
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"go.yaml.in/yaml/v3"
)

// builtIn is the built-in plan table in YAML, with the numbers from the specification.
const builtIn = `
plans:
  pro:
    api_access: true
    keys: 3
    requests_per_minute_per_key: 20
    requests_per_hour: 250
    requests_per_day: 1000
    search_console_calls_per_day: 250
    live_calls_per_minute_per_property: 30
    retention_months: 36
    inspected_urls_per_property: 2000
  agency:
    api_access: true
    keys: 10
    requests_per_minute_per_key: 60
    requests_per_hour: 1000
    requests_per_day: 5000
    search_console_calls_per_day: 1000
    live_calls_per_minute_per_property: 30
    retention_months: 60
    inspected_urls_per_property: 10000
  trial: {api_access: false, retention_months: 16}
  none: {retention_months: 16}
`

func TestDefaultPlansMatchTheSpecification(t *testing.T) {
	read, err := ReadPlans(strings.NewReader(builtIn))
	if err != nil || !maps.Equal(read, DefaultPlans()) {
		t.Errorf("read %+v, %v\nbuilt in %+v", read, err, DefaultPlans())
	}
	for name, plan := range DefaultPlans() {
		if err := plan.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDefaultPlansAreNotShared(t *testing.T) {
	delete(DefaultPlans(), "pro")
	if _, ok := DefaultPlans()["pro"]; !ok {
		t.Error("DefaultPlans returns a shared map")
	}
}

const everyLimit = "keys: 1, requests_per_minute_per_key: 1, requests_per_hour: 1, requests_per_day: 1, search_console_calls_per_day: 1, " +
	"live_calls_per_minute_per_property: 1, retention_months: 1, inspected_urls_per_property: 1"

func TestReadPlansMergesOverTheBuiltInTable(t *testing.T) {
	plans, err := ReadPlans(strings.NewReader("plans: {tiny: {api_access: true, " + everyLimit +
		"}, shut: , pro: {requests_per_day: 2000}, trial: {api_access: true, " + everyLimit + "}}"))
	want := DefaultPlans()
	want["tiny"], want["trial"], want["shut"] = Plan{true, 1, 1, 1, 1, 1, 1, 1, 1}, Plan{true, 1, 1, 1, 1, 1, 1, 1, 1}, Plan{}
	pro := want["pro"]
	pro.RequestsPerDay = 2000
	want["pro"] = pro
	if err != nil || !maps.Equal(plans, want) {
		t.Errorf("%+v, %v", plans, err)
	}
}

// The plan own must not refuse what Search Console and the machine can bear.
func TestPlanOwnRationsNothingBelowTheQuotasOfGoogle(t *testing.T) {
	const perUserAndMinute, inspectionsADay = 1200, 2000
	own, agency := DefaultPlans()["own"], DefaultPlans()["agency"]
	if own.SearchConsoleCallsPerDay < perUserAndMinute*24*60 || own.LiveCallsPerMinutePerProperty > perUserAndMinute ||
		own.InspectedURLsPerProperty > 7*inspectionsADay {
		t.Errorf("the upstream's share of %+v", own)
	}
	if own.RequestsPerDay < 24*own.RequestsPerHour || own.RequestsPerHour < 60*own.RequestsPerMinutePerKey ||
		own.RetentionMonths < agency.RetentionMonths {
		t.Errorf("the requests of %+v", own)
	}
}

func TestReadPlansRejectsInvalidTables(t *testing.T) {
	const (
		none  = "read the plans: the file has none; write plans: {own: {requests_per_day: 5000}}"
		takes = ": use 1 to 1000000000; a plan without api_access may omit it"
	)
	f := func(text string, message ...string) {
		t.Helper()
		plans, err := ReadPlans(strings.NewReader(text))
		if err == nil || plans != nil {
			t.Errorf("%.80q: %+v, %v", text, plans, err)
			return
		}
		for _, part := range message {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.80q: %q, want %q in it", text, err, part)
			}
		}
	}
	f("", none)
	f("# nothing but a comment\n", none)
	f("plans:", none)
	f("plans: {}", none)
	f("null", none)

	f("plans: {", "read the plans: ", "line 1")
	f("\t", "read the plans: ")
	f("pro", "read the plans: ", "pro")
	f("plans: [pro]", "read the plans: ", "line 1")
	f("plans: {pro: 3}", "read the plans: ", "line 1")
	f("plans: {pro: {keys: three}}", `plan pro: line 1: keys is "three": write a whole number`)
	f("plans: {pro: {keys: [3]}}", "plan pro: line 1: keys is ")
	f("plans: {pro: {requests_per_day: null}}", `plan pro: line 1: requests_per_day is "null": write a whole number`)
	f("plans: {pro: {keys: }}", `plan pro: line 1: keys is "": write a whole number`)
	f("plans: {pro: {api_access: ~}}", `plan pro: line 1: api_access is "~": write true or false`)
	f("plans:\n  pro:\n    api_access: perhaps", `plan pro: line 3: api_access is "perhaps": write true or false`)
	f("plans: {pro: {}, pro: {}}", "read the plans: ", `"pro" already defined`)
	f("plans: {pro: {key: 3}}", "plan pro: line 1: there is no field key; the fields are api_access, keys, requests_per_minute_per_key, ")
	f("plans: {pro: {Keys: 3}}", "plan pro: line 1: there is no field Keys")
	f("plan: {pro: {keys: 3}}", "read the plans: ", "plan not found")
	f("plans: {none: {}}\n---\nplans: {pro: {}}", "read the plans: the file has more than one YAML document")
	f("plans: {none: {}}\n---\n{", "read the plans: the file has more than one YAML document")

	f("plans: {mine: {api_access: true}}", "plan mine: keys is 0"+takes)
	f("plans: {trial: {api_access: true}}", "plan trial: keys is 0"+takes)
	f("plans: {pro: {keys: 0}}", "plan pro: keys is 0"+takes)
	f("plans: {pro: {keys: -1}}", "plan pro: keys is -1"+takes)
	f("plans: {pro: {keys: 1000000001}}", "plan pro: keys is 1000000001"+takes)
	for limit := range strings.SplitSeq(everyLimit, ", ") {
		name := strings.TrimSuffix(limit, ": 1")
		f("plans: {good: {}, bad: {api_access: true, "+strings.Replace(everyLimit, limit, name+": 0", 1)+"}}", "plan bad: "+name+" is 0"+takes)
		f("plans: {bad: {api_access: true, "+strings.Replace(everyLimit+", ", limit+", ", "", 1)+"}}", "plan bad: "+name+" is 0"+takes)
		f("plans: {good: {}, bad: {"+name+": -2}}", "plan bad: "+name+" is -2"+takes)
	}
}

func TestReadPlansReturnsReadErrors(t *testing.T) {
	if plans, err := ReadPlans(iotest.ErrReader(errDirectoryDown)); plans != nil || err == nil ||
		!strings.Contains(err.Error(), errDirectoryDown.Error()) {
		t.Errorf("%v, %v", plans, err)
	}
}

// FuzzReadPlans checks that an accepted table is valid and survives a round trip through YAML.
func FuzzReadPlans(f *testing.F) {
	f.Add(builtIn)
	f.Add("plans: {a: &x {keys: 1}, b: *x, <<: {c: }}")
	f.Add("plans: {? [1] : {}}")
	f.Add("---\nplans: {a: {}}\n...\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		plans, err := ReadPlans(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(plans) == 0 {
			t.Fatal("no plans and no error")
		}
		for name, plan := range plans {
			if err := plan.check(); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		written, err := yaml.Marshal(map[string]Plans{"plans": plans})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ReadPlans(strings.NewReader(string(written))); err != nil || !maps.Equal(again, plans) {
			t.Errorf("%+v became %+v, %v by way of\n%s", plans, again, err, written)
		}
	})
}
