// Package openapi is what clients of the API rely on: its operations with their parameters, scopes and answers, the codes of its errors, and
// the OpenAPI document that is generated from them. Package proxy serves the operations. Functions return new values, which callers may change.
package openapi

import (
	"slices"

	"sara/policy"
	"sara/translate"
)

// An Operation is an endpoint of the API, which is a GET.
type Operation struct {
	ID        string // such as getSummary: it names the operation in the document, in metrics and in logs
	Path      string // with {id} for the property
	Summary   string
	About     string        // what the endpoint is for: its description in the document
	Extension bool          // beyond the spec
	Open      bool          // needs no key, and answers without the envelope
	Scope     policy.Scopes // that the key must have; 0: none
	Endpoint  translate.Endpoint

	data schema // of the envelope's data; of an open endpoint, of the whole answer
	meta schema // of the envelope's meta
}

// Path is the path of the document.
const Path = "/v1/openapi.json"

// Operations returns those of the API (spec: Endpoint table), in the order of the documentation.
func Operations() []Operation {
	return slices.Concat(accountOperations(), propertyOperations(), performanceOperations(), indexingOperations(), configurationOperations(),
		referenceOperations())
}

func accountOperations() []Operation {
	return []Operation{
		{Path: "/v1/me", ID: "getAccount", Summary: "The calling key, its account, limits and usage",
			About: "Check that a key works, which scopes it has, and how much of the plan's limits is left. It is the cheapest request to start with.",
			data:  accountSchema(), meta: metaSchema()},
	}
}

func propertyOperations() []Operation {
	return []Operation{
		{Path: "/v1/properties", ID: "listProperties", Summary: "The properties that the key can reach, sorted by name",
			About: "Find the sites that a key can read, and the ids by which to name them in the other requests.",
			Scope: policy.PropertiesRead, Endpoint: translate.Properties(),
			data: rowsSchema(propertyRowSchema()), meta: pageMetaSchema()},
		{Path: "/v1/properties/{id}", ID: "getProperty", Summary: "One property, its data window and its connection",
			About: "Learn the first and the last day with data before you choose a date range, and whether the connection to Search Console is healthy.",
			Scope: policy.PropertiesRead, data: propertySchema(), meta: propertyMetaSchema()},
	}
}

func performanceOperations() []Operation {
	return []Operation{
		{Path: "/v1/properties/{id}/summary", ID: "getSummary", Summary: "Totals of a period, and optionally of an earlier one",
			About: "Show a site's clicks, impressions, click-through rate and position as one line, and how they changed since an earlier period. " +
				"Totals include the anonymised queries that no table shows.",
			Scope: policy.PerformanceRead, Endpoint: translate.Summary(),
			data: summarySchema(), meta: performanceMetaSchema()},
		{Path: "/v1/properties/{id}/timeseries", ID: "getTimeseries", Summary: "One row for every known day of a period",
			About: "Draw a chart. Days without traffic are zeros; days that Search Console has not published yet are left out, and a note names them.",
			Scope: policy.PerformanceRead, Endpoint: translate.Timeseries(),
			data: rowsSchema(daySchema()), meta: performanceMetaSchema()},
		breakdown("/queries", "listQueries", "Search queries", translate.ByQuery,
			"See which searches lead to a site. Rows are the most clicked queries; Search Console withholds rare ones, "+
				"so that rows do not add up to the totals."),
		breakdown("/pages", "listPages", "Pages", translate.ByPage,
			"See which pages people find in search, and with the filter page_group how each part of a site performs."),
		breakdown("/countries", "listCountries", "Countries", translate.ByCountry,
			"See where the people who search come from, by the three-letter code of the country."),
		breakdown("/devices", "listDevices", "Devices", translate.ByDevice,
			"Compare desktop, mobile and tablet."),
		movers("/movers/queries", "listQueryMovers", "Queries", translate.ByQuery,
			"Explain a rise or a drop: the queries with the largest gains and losses in clicks, in two lists."),
		movers("/movers/pages", "listPageMovers", "Pages", translate.ByPage,
			"Explain a rise or a drop: the pages with the largest gains and losses in clicks, in two lists."),
		{Path: "/v1/portfolio", ID: "getPortfolio", Summary: "Totals of all properties of the key, in one answer",
			About: "Compare all sites of an account in one request, and see which of them rise or fall. A property that cannot be answered now " +
				"has an error in place of figures; the others are answered all the same.",
			Extension: true, Scope: policy.PerformanceRead, Endpoint: translate.Portfolio(),
			data: portfolioSchema(), meta: portfolioMetaSchema()},
		{Path: "/v1/anomalies", ID: "listAnomalies", Summary: "Known events at Google that distort figures of web search, by first day",
			About:     "Rule out that a jump in a chart is an error in Google's own figures before you look for its cause on the site.",
			Extension: true, Endpoint: translate.KnownEvents(), data: rowsSchema(anomalySchema()), meta: countMetaSchema()},
	}
}

func indexingOperations() []Operation {
	return []Operation{
		{Path: "/v1/properties/{id}/indexing", ID: "getIndexing", Summary: "How many URLs are indexed, why others are not, and the same by sitemap",
			About: "Watch how much of a site Google has indexed, by reason and by sitemap, and how that changes. " +
				"The results are from the last daily inspection.",
			Scope: policy.IndexingRead, Endpoint: translate.Indexing(),
			data: indexingSchema(), meta: indexMetaSchema()},
		{Path: "/v1/properties/{id}/indexing/urls", ID: "listIndexedURLs", Summary: "The inspected URLs, and what Search Console reports about each",
			About: "Find the URLs behind a count of /indexing: by bucket, by Search Console's own label, by sitemap, or by a part of the address.",
			Scope: policy.IndexingRead, Endpoint: translate.IndexedURLs(),
			data: rowsSchema(urlRowSchema()), meta: urlsMetaSchema()},
	}
}

func configurationOperations() []Operation {
	return []Operation{
		{Path: "/v1/properties/{id}/brand-terms", ID: "listBrandTerms", Summary: "What counts as the property's brand",
			About: "See which terms the filter brand uses to separate branded queries from all others.",
			Scope: policy.ConfigRead, data: rowsSchema(brandTermSchema()), meta: listMetaSchema()},
		{Path: "/v1/properties/{id}/page-groups", ID: "listPageGroups", Summary: "The property's named sets of pages",
			About: "See which groups the filter page_group can name, and the rules by which a page belongs to one.",
			Scope: policy.ConfigRead, data: rowsSchema(pageGroupSchema()), meta: listMetaSchema()},
		{Path: "/v1/properties/{id}/annotations", ID: "listAnnotations", Summary: "Dated notes on the property, by date",
			About: "Mark in a chart what the site's owner noted down: launches, redesigns, Google's updates.",
			Scope: policy.ConfigRead, Endpoint: translate.Annotations(),
			data: rowsSchema(annotationSchema()), meta: listMetaSchema()},
	}
}

func breakdown(path, operation, what string, by translate.Dimension, about string) Operation {
	return Operation{Path: "/v1/properties/{id}" + path, ID: operation, Summary: what + " with their figures", About: about,
		Scope: policy.PerformanceRead, Endpoint: translate.Breakdown(),
		data: breakdownSchema(by), meta: tableMetaSchema()}
}

func movers(path, operation, what string, by translate.Dimension, about string) Operation {
	return Operation{Path: "/v1/properties/{id}" + path, ID: operation, About: about,
		Summary: what + " with the largest gains and losses in clicks versus the previous period",
		Scope:   policy.PerformanceRead, Endpoint: translate.Movers(),
		data: moversSchema(by), meta: performanceMetaSchema()}
}

func referenceOperations() []Operation {
	return []Operation{
		{Path: Path, ID: "getOpenAPI", Summary: "This document",
			About: "Generate a client, or validate requests and answers. It needs no key, counts towards no limit, and is not in the envelope.",
			Open:  true, data: typed("object", "A document of OpenAPI 3.1.")},
	}
}
