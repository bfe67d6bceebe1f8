package proxy

import (
	"context"
	"slices"

	"sara/policy"
	"sara/proxy/tabular"
	"sara/translate"
)

const pathOpenAPI = "/v1/openapi.json"

// A handler answers a request.
type handler func(s *Server, ctx context.Context, c *call) (reply, error)

// A route is one row of the route table: path, parameters, required scope and handler of an endpoint.
type route struct {
	Path      string // with {id} for the property
	Operation string // operationId of the OpenAPI document; empty: not an endpoint
	Summary   string
	About     string        // what the endpoint is for: its description in the OpenAPI document
	Extension bool          // beyond the spec
	Open      bool          // needs no key, and answers without the envelope
	Scope     policy.Scopes // that the key must have; 0: none
	Endpoint  translate.Endpoint
	Data      schema // of the envelope's data; of an open endpoint, of the whole answer
	Meta      schema // of the envelope's meta

	serve  handler
	series *successSeries // nil: not an endpoint
	table  *tabular.Table // of its rows, in CSV; nil: there are none
}

// label is the name of the route in logs and metrics.
func (r *route) label() string {
	if r.Operation == "" {
		return r.Path
	}
	return r.Operation
}

// table is the route table (spec: Endpoint table), in the order of the documentation.
func table() []route {
	return slices.Concat(accountRoutes(), propertyRoutes(), performanceRoutes(), indexingRoutes(), configurationRoutes(), referenceRoutes())
}

func accountRoutes() []route {
	return []route{
		{Path: "/v1/me", Operation: "getAccount", Summary: "The calling key, its account, limits and usage",
			About: "Check that a key works, which scopes it has, and how much of the plan's limits is left. It is the cheapest request to start with.",
			Data:  accountSchema(), Meta: metaSchema(), serve: serveAccount},
	}
}

func propertyRoutes() []route {
	return []route{
		{Path: "/v1/properties", Operation: "listProperties", Summary: "The properties that the key can reach, sorted by name",
			About: "Find the sites that a key can read, and the ids by which to name them in the other requests.",
			Scope: policy.PropertiesRead, Endpoint: translate.Properties(),
			Data: rowsSchema(propertyRowSchema()), Meta: pageMetaSchema(), serve: aboutProperties((*propertyServer).serveProperties)},
		{Path: "/v1/properties/{id}", Operation: "getProperty", Summary: "One property, its data window and its connection",
			About: "Learn the first and the last day with data before you choose a date range, and whether the connection to Search Console is healthy.",
			Scope: policy.PropertiesRead, Data: propertySchema(), Meta: propertyMetaSchema(), serve: aboutProperties((*propertyServer).serveProperty)},
	}
}

func performanceRoutes() []route {
	return []route{
		{Path: "/v1/properties/{id}/summary", Operation: "getSummary", Summary: "Totals of a period, and optionally of an earlier one",
			About: "Show a site's clicks, impressions, click-through rate and position as one line, and how they changed since an earlier period. " +
				"Totals include the anonymised queries that no table shows.",
			Scope: policy.PerformanceRead, Endpoint: translate.Summary(),
			Data: summarySchema(), Meta: performanceMetaSchema(), serve: serve(translate.SummaryReport())},
		{Path: "/v1/properties/{id}/timeseries", Operation: "getTimeseries", Summary: "One row for every known day of a period",
			About: "Draw a chart. Days without traffic are zeros; days that Search Console has not published yet are left out, and a note names them.",
			Scope: policy.PerformanceRead, Endpoint: translate.Timeseries(),
			Data: rowsSchema(daySchema()), Meta: performanceMetaSchema(), serve: serve(translate.TimeseriesReport())},
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
		{Path: "/v1/portfolio", Operation: "getPortfolio", Summary: "Totals of all properties of the key, in one answer",
			About: "Compare all sites of an account in one request, and see which of them rise or fall. A property that cannot be answered now " +
				"has an error in place of figures; the others are answered all the same.",
			Extension: true, Scope: policy.PerformanceRead, Endpoint: translate.Portfolio(),
			Data: portfolioSchema(), Meta: portfolioMetaSchema(), serve: servePortfolio},
		{Path: "/v1/anomalies", Operation: "listAnomalies", Summary: "Known events at Google that distort figures of web search, by first day",
			About:     "Rule out that a jump in a chart is an error in Google's own figures before you look for its cause on the site.",
			Extension: true, Endpoint: translate.KnownEvents(), Data: rowsSchema(anomalySchema()), Meta: countMetaSchema(), serve: serveAnomalies},
	}
}

func indexingRoutes() []route {
	return []route{
		{Path: "/v1/properties/{id}/indexing", Operation: "getIndexing", Summary: "How many URLs are indexed, why others are not, and the same by sitemap",
			About: "Watch how much of a site Google has indexed, by reason and by sitemap, and how that changes. " +
				"The results are from the last daily inspection.",
			Scope: policy.IndexingRead, Endpoint: translate.Indexing(),
			Data: indexingSchema(), Meta: indexMetaSchema(), serve: aboutProperties((*propertyServer).serveIndexing)},
		{Path: "/v1/properties/{id}/indexing/urls", Operation: "listIndexedURLs", Summary: "The inspected URLs, and what Search Console reports about each",
			About: "Find the URLs behind a count of /indexing: by bucket, by Search Console's own label, by sitemap, or by a part of the address.",
			Scope: policy.IndexingRead, Endpoint: translate.IndexedURLs(),
			Data: rowsSchema(urlRowSchema()), Meta: urlsMetaSchema(), serve: aboutProperties((*propertyServer).serveIndexedURLs)},
	}
}

func configurationRoutes() []route {
	return []route{
		{Path: "/v1/properties/{id}/brand-terms", Operation: "listBrandTerms", Summary: "What counts as the property's brand",
			About: "See which terms the filter brand uses to separate branded queries from all others.",
			Scope: policy.ConfigRead, Data: rowsSchema(brandTermSchema()), Meta: listMetaSchema(), serve: aboutProperties((*propertyServer).serveBrandTerms)},
		{Path: "/v1/properties/{id}/page-groups", Operation: "listPageGroups", Summary: "The property's named sets of pages",
			About: "See which groups the filter page_group can name, and the rules by which a page belongs to one.",
			Scope: policy.ConfigRead, Data: rowsSchema(pageGroupSchema()), Meta: listMetaSchema(), serve: aboutProperties((*propertyServer).servePageGroups)},
		{Path: "/v1/properties/{id}/annotations", Operation: "listAnnotations", Summary: "Dated notes on the property, by date",
			About: "Mark in a chart what the site's owner noted down: launches, redesigns, Google's updates.",
			Scope: policy.ConfigRead, Endpoint: translate.Annotations(),
			Data: rowsSchema(annotationSchema()), Meta: listMetaSchema(), serve: aboutProperties((*propertyServer).serveAnnotations)},
	}
}

func breakdown(path, operation, what string, by translate.Dimension, about string) route {
	return route{Path: "/v1/properties/{id}" + path, Operation: operation, Summary: what + " with their figures", About: about,
		Scope: policy.PerformanceRead, Endpoint: translate.Breakdown(),
		Data: breakdownSchema(by), Meta: tableMetaSchema(),
		serve: serve(translate.BreakdownReport(by))}
}

func movers(path, operation, what string, by translate.Dimension, about string) route {
	return route{Path: "/v1/properties/{id}" + path, Operation: operation, About: about,
		Summary: what + " with the largest gains and losses in clicks versus the previous period",
		Scope:   policy.PerformanceRead, Endpoint: translate.Movers(),
		Data: moversSchema(by), Meta: performanceMetaSchema(),
		serve: serve(translate.MoversReport(by))}
}

func referenceRoutes() []route {
	return []route{
		{Path: pathOpenAPI, Operation: "getOpenAPI", Summary: "This document",
			About: "Generate a client, or validate requests and answers. It needs no key, counts towards no limit, and is not in the envelope.",
			Open:  true, Data: typed("object", "A document of OpenAPI 3.1."), serve: (*Server).serveOpenAPI},
	}
}
