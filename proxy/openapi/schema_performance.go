package openapi

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/translate"
)

func metricMembers() []member {
	return []member{
		{name: "clicks", schema: whole("Clicks from search results.").with("minimum", 0).like(1240)},
		{name: "impressions", schema: whole("How often a result was shown.").with("minimum", 0).like(31000)},
		{name: "ctr", schema: number("Clicks per impression, a fraction; 0 without impressions.").with("minimum", 0).like(0.04)},
		{name: "position", schema: number("Average position, counted from 1; 0 without impressions.").with("minimum", 0).like(8.7)},
	}
}

func rangeMembers() []member {
	return []member{
		{name: "start_date", schema: day("First day.").like("2026-10-23")},
		{name: "end_date", schema: day("Last day, included.").like("2026-11-19")},
	}
}

func summarySchema() schema {
	return object(
		member{name: "totals", schema: object(metricMembers()...).named("Metrics")},
		member{name: "previous", optional: true, schema: previousSchema()}).named("Summary")
}

func previousSchema() schema {
	return object(append(rangeMembers(), metricMembers()...)...).
		with("description", "The period that compare names: the window of equal length right before, or the same dates a year before.").
		named("PreviousPeriod")
}

func portfolioSchema() schema {
	totals := func() schema { return object(metricMembers()...).named("Metrics").orNull() }
	previous := func() schema { return previousSchema().orNull() }
	row := object(
		member{name: "property_id", schema: uuid("The property.")},
		member{name: "name", schema: text("Its name for people.").like("Example")},
		siteMember(),
		slugMember(),
		member{name: "totals", schema: totals()},
		member{name: "previous", schema: previous()},
		member{name: "clicks_delta", schema: whole("Clicks gained since the period before; null without compare or figures.").orNull().like(60)},
		member{name: "source", schema: sourceSchema().orNull()},
		member{name: "stale_reason", schema: text("Why the figures are not current; null when they are.").orNull().with("examples", []any{nil})},
		member{name: "notes", schema: listOf(text("A line that explains the figures of this property."))},
		member{name: "error", schema: object(
			member{name: "code", schema: errorCodeSchema()},
			member{name: "message", schema: text("What is wrong, for people.")}).
			with("description", "Why the property has no figures; null if it has.").named("PropertyError").orNull()}).
		named("PortfolioRow")
	return object(
		member{name: "rows", schema: listOf(row)},
		member{name: "totals", schema: totals()},
		member{name: "previous", schema: previous()}).
		with("description", "totals and previous are those of all properties that have figures, whether their row is on this page or not.").
		named("Portfolio")
}

// rowsSchema is a list of rows. Its name is the plural of the row's.
func rowsSchema(row schema) schema {
	return object(member{name: "rows", schema: listOf(row)}).named(english.PluralWord(2, fmt.Sprint(row[nameKeyword]), ""))
}

func daySchema() schema {
	return object(append([]member{{name: "date", schema: day("The day.").like("2026-11-19")}}, metricMembers()...)...).named("Day")
}

// titled is the name of a dimension as a prefix of schema names.
func titled(by translate.Dimension) string {
	name := by.String()
	return strings.ToUpper(name[:1]) + name[1:]
}

func dimensionMember(by translate.Dimension) member {
	return member{name: "dimension", schema: text("What the keys are.").with("const", by.String())}
}

func keyMember(by translate.Dimension) member {
	key := text("The " + by.String() + ".")
	switch by {
	case translate.ByQuery:
		key.like("garden chair")
	case translate.ByPage:
		key.like("https://www.example.com/chairs/")
	case translate.ByCountry:
		key = text("ISO 3166-1 alpha-3 code in lower case; zzz for unknown.").with("pattern", "^[a-z]{3}$").like("usa")
	case translate.ByDevice:
		key.like("MOBILE")
	}
	return member{name: "key", schema: key}
}

func breakdownSchema(by translate.Dimension) schema {
	row := object(append([]member{keyMember(by)}, metricMembers()...)...).named(titled(by) + "Row")
	return object(dimensionMember(by), member{name: "rows", schema: listOf(row)}).named(titled(by) + "Rows")
}

func moversSchema(by translate.Dimension) schema {
	mover := object(
		keyMember(by),
		member{name: "clicks", schema: whole("Clicks in the period.").like(180)},
		member{name: "previous_clicks", schema: whole("Clicks in the period before.").like(120)},
		member{name: "clicks_delta", schema: whole("The difference; negative for losers.").like(60)},
		member{name: "clicks_change_pct", schema: number("The difference in percent of the period before; 100 when that had none.").like(50)},
		member{name: "impressions", schema: whole("Impressions in the period.").like(2400)},
		member{name: "previous_impressions", schema: whole("Impressions in the period before.").like(2100)},
		member{name: "position", schema: number("Average position in the period; 0 when it was not shown.").like(4.2)},
		member{name: "previous_position", schema: number("Average position in the period before; 0 when it was not shown.").like(5.1)}).
		named(titled(by) + "Mover")
	return object(dimensionMember(by),
		member{name: "previous_range", schema: object(rangeMembers()...).named("DateRange")},
		member{name: "gainers", schema: listOf(mover).with("description", "Most clicks gained first.")},
		member{name: "losers", schema: listOf(mover).with("description", "Most clicks lost first.")}).named(titled(by) + "Movers")
}

func filterSchema() schema {
	return object(
		member{name: "dimension", schema: text("What to filter by; brand and page_group mean what the property's owner configured.").
			with("enum", translate.FilterDimensions())},
		member{name: "operator", schema: text("How to compare; brand and page_group take equals, not_equals, is and is_not.").
			with("enum", translate.FilterOperators())},
		member{name: "value", schema: text("What to compare with.").with("minLength", 1).with("maxLength", 200)}).
		with("additionalProperties", false).
		like(map[string]any{"dimension": "device", "operator": "equals", "value": "mobile"}).named("Filter")
}

func anomalySchema() schema {
	return object(
		member{name: "id", schema: text("Its name, with which the notes of answers begin.").like("gsc-impressions-logging-2025")},
		member{name: "start_date", schema: day("The first day.").like("2025-05-13")},
		member{name: "end_date",
			schema: day("The last day, included; null for a window that is still open, and for a step whose day is known.").
				orNull().like("2026-04-27")},
		member{name: "kind", schema: text("window: the figures of these days are wrong. step: from this day on, figures are computed differently.").
			with("enum", []string{translate.AnomalyWindow, translate.AnomalyStep}).named("AnomalyKind")},
		member{name: "metrics", schema: listOf(text("A metric that it distorts.").with("enum", translate.AnomalyMetrics()).named("Metric"))},
		member{name: "effect", schema: text("What it does to the figures.").like("A logging error made impressions inaccurate. Clicks are right.")},
		member{name: "source_url",
			schema: text("Where it is described.").with("format", "uri").like("https://support.google.com/webmasters/answer/6211453")}).
		named("Anomaly")
}
