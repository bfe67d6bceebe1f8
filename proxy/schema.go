package proxy

import (
	"sara/policy"
	"sara/translate"
)

// A schema is a JSON Schema of the OpenAPI document. Objects list every member that is always there as required; clients
// must still expect members that they do not know (spec: Versioning 2).
type schema map[string]any

func typed(name, description string) schema { return schema{"type": name, "description": description} }

func text(description string) schema    { return typed("string", description) }
func whole(description string) schema   { return typed("integer", description) }
func number(description string) schema  { return typed("number", description) }
func boolean(description string) schema { return typed("boolean", description) }
func day(description string) schema     { return text(description).with("format", "date") }
func instant(description string) schema { return text(description).with("format", "date-time") }
func uuid(description string) schema    { return text(description).with("format", "uuid") }

func listOf(items schema) schema { return schema{"type": "array", "items": items} }

// with returns s with one more keyword.
func (s schema) with(keyword string, value any) schema {
	s[keyword] = value
	return s
}

// orNull returns s made nullable.
func (s schema) orNull() schema { return s.with("type", []any{s["type"], "null"}) }

// null is the schema of a member that has no other value yet.
func null(description string) schema { return typed("null", description) }

// member is a named part of an object; an optional one is not required.
type member struct {
	name     string
	schema   schema
	optional bool
}

func object(members ...member) schema {
	properties := make(map[string]any, len(members))
	required := make([]string, 0, len(members))
	for _, m := range members {
		properties[m.name] = m.schema
		if !m.optional {
			required = append(required, m.name)
		}
	}
	return schema{"type": "object", "properties": properties, "required": required}
}

func metricMembers() []member {
	return []member{
		{name: "clicks", schema: whole("Clicks from search results.").with("minimum", 0)},
		{name: "impressions", schema: whole("How often a result was shown.").with("minimum", 0)},
		{name: "ctr", schema: number("Clicks per impression, a fraction; 0 without impressions.").with("minimum", 0)},
		{name: "position", schema: number("Average position, counted from 1; 0 without impressions.").with("minimum", 0)},
	}
}

func rangeMembers() []member {
	return []member{{name: "start_date", schema: day("First day.")}, {name: "end_date", schema: day("Last day, included.")}}
}

func summarySchema() schema {
	return object(
		member{name: "totals", schema: object(metricMembers()...)},
		member{name: "previous", optional: true, schema: object(append(rangeMembers(), metricMembers()...)...).
			with("description", "The window of equal length right before; with compare=previous_period only.")})
}

func rowsSchema(row schema) schema { return object(member{name: "rows", schema: listOf(row)}) }

func daySchema() schema {
	return object(append([]member{{name: "date", schema: day("The day.")}}, metricMembers()...)...)
}

func dimensionMember(by translate.Dimension) member {
	return member{name: "dimension", schema: text("What the keys are.").with("const", by.String())}
}

func breakdownSchema(by translate.Dimension) schema {
	key := text("The " + by.String() + ".")
	if by == translate.ByCountry {
		key = text("ISO 3166-1 alpha-3 code in lower case; zzz for unknown.").with("pattern", "^[a-z]{3}$")
	}
	row := object(append([]member{{name: "key", schema: key}}, metricMembers()...)...)
	return object(dimensionMember(by), member{name: "rows", schema: listOf(row)})
}

func moversSchema(by translate.Dimension) schema {
	mover := object(
		member{name: "key", schema: text("The " + by.String() + ".")},
		member{name: "clicks", schema: whole("Clicks in the period.")},
		member{name: "previous_clicks", schema: whole("Clicks in the period before.")},
		member{name: "clicks_delta", schema: whole("The difference; negative for losers.")},
		member{name: "clicks_change_pct", schema: number("The difference in percent of the period before; 100 when that had none.")},
		member{name: "impressions", schema: whole("Impressions in the period.")},
		member{name: "previous_impressions", schema: whole("Impressions in the period before.")},
		member{name: "position", schema: number("Average position in the period; 0 when it was not shown.")},
		member{name: "previous_position", schema: number("Average position in the period before; 0 when it was not shown.")})
	return object(dimensionMember(by),
		member{name: "previous_range", schema: object(rangeMembers()...)},
		member{name: "gainers", schema: listOf(mover)},
		member{name: "losers", schema: listOf(mover)})
}

func scopeSchema() schema { return text("A scope.").with("enum", policy.AllScopes.Names()) }

func accountSchema() schema {
	return object(
		member{name: "key", schema: object(
			member{name: "id", schema: uuid("The calling key.")},
			member{name: "scopes", schema: listOf(scopeSchema())},
			member{name: "workspace_scope", schema: object(
				member{name: "id", schema: uuid("The one workspace that the key reaches.")},
				member{name: "name", schema: text("Its name.")}).orNull()})},
		member{name: "account", schema: object(member{name: "plan_tier", schema: text("The account's plan.")})},
		member{name: "limits", schema: object(
			member{name: "requests_per_minute_per_key", schema: whole("Burst of one key.")},
			member{name: "requests_per_hour", schema: whole("Of the account.")},
			member{name: "requests_per_day", schema: whole("Of the account; resets at midnight UTC.")},
			member{name: "search_console_calls_per_day", schema: whole("Live upstream calls of the account.")})},
		member{name: "usage", schema: object(
			member{name: "requests_this_hour", schema: whole("Of the account.")},
			member{name: "requests_today", schema: whole("Of the account, since midnight UTC.")},
			member{name: "search_console_calls_today", schema: whole("Of the account, since midnight UTC.")},
			member{name: "search_console_calls_remaining_today", schema: whole("Of the account, until midnight UTC.")})})
}

func propertyMembers() []member {
	return []member{
		{name: "id", schema: uuid("The property.")},
		{name: "gsc_property", schema: text("The full upstream string: sc-domain:example.com or a URL prefix.")},
		{name: "display_name", schema: text("Its name for people.")},
		{name: "type", schema: text("Which kind of property it is upstream.").with("enum", []string{"domain", "url_prefix"})},
		{name: "archived", schema: boolean("Archived properties serve stored history only.")},
	}
}

func propertyRowSchema() schema {
	return object(append(propertyMembers(),
		member{name: "permission_level", schema: text("The upstream's own word, such as siteOwner.")},
		member{name: "starred", schema: boolean("Marked by its people.")},
		member{name: "created_at", schema: instant("When it was connected.")})...)
}

func propertySchema() schema {
	return object(append(propertyMembers(),
		member{name: "data_window", schema: object(
			member{name: "latest_data_date", schema: day("The anchor: the last day of every range.")},
			member{name: "earliest_data_date", schema: day("The first day that the key can read.")},
			member{name: "live_window_months", schema: whole("How far back the upstream keeps data.")},
			member{name: "retention_months", schema: whole("How far back the plan allows ranges.")})},
		member{name: "connection", schema: object(
			member{name: "healthy", schema: boolean("Whether the upstream answered when it was last asked.")},
			member{name: "note", schema: text("Why it did not.").orNull()})},
		member{name: "last_archived_date", schema: day("The last day that is stored; null while nothing is.").orNull()})...)
}

func brandTermSchema() schema {
	return object(
		member{name: "id", schema: uuid("The term.")},
		member{name: "term", schema: text("A word or phrase, or an RE2 expression.")},
		member{name: "match_type", schema: text("How queries match it.").with("enum", []string{"contains", "exact", "regex"})},
		member{name: "created_at", schema: instant("When it was added.")})
}

func pageGroupSchema() schema {
	rule := object(
		member{name: "type", schema: text("How pages match.").with("enum", []string{"prefix", "contains", "equals", "regex"})},
		member{name: "value", schema: text("Matched against the page's URL; one that starts with a slash, by prefix or equals, against its path.")})
	return object(
		member{name: "id", schema: uuid("The group.")},
		member{name: "name", schema: text("What the page_group filter calls it.")},
		member{name: "rules", schema: listOf(rule).with("description", "ORed.")},
		member{name: "created_at", schema: instant("When it was added.")})
}

func annotationSchema() schema {
	return object(
		member{name: "id", schema: uuid("The annotation.")},
		member{name: "date", schema: day("The day that it is about.")},
		member{name: "title", schema: text("What happened.")},
		member{name: "note", schema: text("More about it; may be empty.")},
		member{name: "color", schema: text("For charts.")})
}

func requestIDMember() member {
	return member{name: "request_id", schema: text("Identifies the request; quote it when you ask for support.")}
}

func propertyIDMember() member {
	return member{name: "property_id", schema: uuid("The property that the request resolved to.")}
}

func notesMember() member {
	return member{name: "notes", schema: listOf(text("A line that explains the answer."))}
}

func rowCountMember() member { return member{name: "row_count", schema: whole("Rows returned.")} }

func metaSchema() schema { return object(requestIDMember()) }

func pageMetaSchema() schema {
	return object(requestIDMember(), rowCountMember(),
		member{name: "limit", schema: whole("The limit applied.")},
		member{name: "offset", schema: whole("The rows skipped.")},
		member{name: "total", schema: whole("How many there are in all.")})
}

func propertyMetaSchema() schema { return object(requestIDMember(), propertyIDMember(), notesMember()) }

func listMetaSchema() schema {
	return object(requestIDMember(), propertyIDMember(), notesMember(), rowCountMember())
}

func performanceMetaSchema() schema {
	return object(requestIDMember(), propertyIDMember(), notesMember(),
		member{name: "date_range", schema: object(append(rangeMembers(),
			member{name: "preset", schema: text("The relative range, or custom.").
				with("enum", append(translate.Presets(), translate.PresetCustom))})...)},
		member{name: "row_count", schema: whole("Rows returned.").orNull()},
		member{name: "limit", schema: whole("The limit applied.").orNull()},
		member{name: "total", schema: null("The upstream does not say how many rows there are.")},
		member{name: "truncated_by", schema: text("clicks when rows fell off by the upstream's ranking.").orNull().with("enum", []any{"clicks", nil})},
		member{name: "source", schema: text("Where the figures come from; stored ones are not current.").with("enum", []string{string(translate.Live), string(translate.Stored), string(translate.Hybrid)})},
		member{name: "stale_reason", schema: text("Why the answer is not fresh.").orNull()},
		member{name: "cache", schema: text("Whether a stored answer was served.").with("enum", []string{"hit", "miss", "bypass"})})
}
