package proxy

import (
	"context"

	"sara/policy"
	"sara/translate"
)

const pathOpenAPI = "/v1/openapi.json"

// A route is one row of the route table: path, parameters, required scope and handler of an endpoint.
type route struct {
	Path      string // with {id} for the property
	Operation string // operationId of the OpenAPI document; empty: not an endpoint
	Summary   string
	Open      bool          // needs no key
	Scope     policy.Scopes // that the key must have; 0: none
	Endpoint  translate.Endpoint
	Data      schema // of the envelope's data
	Meta      schema // of the envelope's meta

	serve  func(s *Server, ctx context.Context, c *call) (reply, error)
	series *successSeries // nil: not an endpoint
}

// label is the name of the route in logs and metrics.
func (r *route) label() string {
	if r.Operation == "" {
		return r.Path
	}
	return r.Operation
}

// routes is the route table.
func (s *Server) routes() []route {
	return append([]route{
		{Path: pathOpenAPI, Operation: "getOpenAPI", Open: true, Summary: "This document", serve: (*Server).serveOpenAPI},
	}, table()...)
}

// table returns the routes that answer in the envelope (spec: Endpoint table).
func table() []route {
	return []route{
		{Path: "/v1/me", Operation: "getAccount", Summary: "The calling key, its account, limits and usage",
			Data: accountSchema(), Meta: metaSchema(), serve: (*Server).serveAccount},
		{Path: "/v1/anomalies", Operation: "listAnomalies", Summary: "Known events at Google that distort figures of web search, by first day",
			Endpoint: translate.KnownEvents(), Data: rowsSchema(anomalySchema()), Meta: countMetaSchema(), serve: (*Server).serveAnomalies},
		{Path: "/v1/properties", Operation: "listProperties", Summary: "The properties that the key can reach, sorted by name",
			Scope: policy.PropertiesRead, Endpoint: translate.Properties(),
			Data: rowsSchema(propertyRowSchema()), Meta: pageMetaSchema(), serve: (*Server).serveProperties},
		{Path: "/v1/properties/{id}", Operation: "getProperty", Summary: "One property, its data window and its connection",
			Scope: policy.PropertiesRead, Data: propertySchema(), Meta: propertyMetaSchema(), serve: (*Server).serveProperty},
		{Path: "/v1/properties/{id}/summary", Operation: "getSummary", Summary: "Totals of a period, and of the one before it on demand",
			Scope: policy.PerformanceRead, Endpoint: translate.Summary(),
			Data: summarySchema(), Meta: performanceMetaSchema(), serve: serve(translate.SummaryReport())},
		{Path: "/v1/properties/{id}/timeseries", Operation: "getTimeseries", Summary: "One row for every known day of a period",
			Scope: policy.PerformanceRead, Endpoint: translate.Timeseries(),
			Data: rowsSchema(daySchema()), Meta: performanceMetaSchema(), serve: serve(translate.TimeseriesReport())},
		breakdown("/queries", "listQueries", "Search queries", translate.ByQuery),
		breakdown("/pages", "listPages", "Pages", translate.ByPage),
		breakdown("/countries", "listCountries", "Countries", translate.ByCountry),
		breakdown("/devices", "listDevices", "Devices", translate.ByDevice),
		movers("/movers/queries", "listQueryMovers", "Queries", translate.ByQuery),
		movers("/movers/pages", "listPageMovers", "Pages", translate.ByPage),
		{Path: "/v1/properties/{id}/indexing", Operation: "getIndexing", Summary: "How many URLs are indexed, why others are not, and by sitemap",
			Scope: policy.IndexingRead, Endpoint: translate.Indexing(),
			Data: indexingSchema(), Meta: indexMetaSchema(), serve: (*Server).serveIndexing},
		{Path: "/v1/properties/{id}/indexing/urls", Operation: "listIndexedURLs", Summary: "The inspected URLs, and what the upstream says of each",
			Scope: policy.IndexingRead, Endpoint: translate.IndexedURLs(),
			Data: rowsSchema(urlRowSchema()), Meta: urlsMetaSchema(), serve: (*Server).serveIndexedURLs},
		{Path: "/v1/properties/{id}/brand-terms", Operation: "listBrandTerms", Summary: "What counts as the property's brand",
			Scope: policy.ConfigRead, Data: rowsSchema(brandTermSchema()), Meta: listMetaSchema(), serve: (*Server).serveBrandTerms},
		{Path: "/v1/properties/{id}/page-groups", Operation: "listPageGroups", Summary: "The property's named sets of pages",
			Scope: policy.ConfigRead, Data: rowsSchema(pageGroupSchema()), Meta: listMetaSchema(), serve: (*Server).servePageGroups},
		{Path: "/v1/properties/{id}/annotations", Operation: "listAnnotations", Summary: "Dated notes on the property, by date",
			Scope: policy.ConfigRead, Endpoint: translate.Annotations(),
			Data: rowsSchema(annotationSchema()), Meta: listMetaSchema(), serve: (*Server).serveAnnotations},
	}
}

func breakdown(path, operation, what string, by translate.Dimension) route {
	return route{Path: "/v1/properties/{id}" + path, Operation: operation, Summary: what + " with their figures",
		Scope: policy.PerformanceRead, Endpoint: translate.Breakdown(),
		Data: breakdownSchema(by), Meta: tableMetaSchema(),
		serve: serve(translate.BreakdownReport(by))}
}

func movers(path, operation, what string, by translate.Dimension) route {
	return route{Path: "/v1/properties/{id}" + path, Operation: operation,
		Summary: what + " that gained or lost most clicks against the period before",
		Scope:   policy.PerformanceRead, Endpoint: translate.Movers(),
		Data: moversSchema(by), Meta: performanceMetaSchema(),
		serve: serve(translate.MoversReport(by))}
}
