package proxy

import (
	"context"

	"sara/policy"
	"sara/proxy/openapi"
	"sara/proxy/tabular"
	"sara/translate"
)

// A handler answers a request.
type handler func(s *Server, ctx context.Context, x *exchange) (reply, error)

// A route is one row of the route table.
type route struct {
	Path      string        // with {id} for the property
	Operation string        // its id in the OpenAPI document; empty: not an endpoint
	Open      bool          // needs no key, and answers without the envelope
	Scope     policy.Scopes // that the key must have; 0: none
	Endpoint  translate.Endpoint

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

// table is the route table: the operations of the API with their handlers.
func table() []route {
	operations, handlers := openapi.Operations(), handlers()
	routes := make([]route, len(operations))
	for i := range operations {
		o := &operations[i]
		routes[i] = route{Path: o.Path, Operation: o.ID, Open: o.Open, Scope: o.Scope, Endpoint: o.Endpoint, serve: handlers[o.ID], table: o.Table()}
	}
	return routes
}

// handlers returns the handler of each operation.
func handlers() map[string]handler {
	return map[string]handler{
		"getAccount": serveAccount,

		"listProperties": aboutProperties((*propertyServer).serveProperties),
		"getProperty":    aboutProperties((*propertyServer).serveProperty),

		"getSummary":      serve(translate.SummaryReport()),
		"getTimeseries":   serve(translate.TimeseriesReport()),
		"listQueries":     serve(translate.BreakdownReport(translate.ByQuery)),
		"listPages":       serve(translate.BreakdownReport(translate.ByPage)),
		"listCountries":   serve(translate.BreakdownReport(translate.ByCountry)),
		"listDevices":     serve(translate.BreakdownReport(translate.ByDevice)),
		"listQueryMovers": serve(translate.MoversReport(translate.ByQuery)),
		"listPageMovers":  serve(translate.MoversReport(translate.ByPage)),
		"getPortfolio":    servePortfolio,
		"listAnomalies":   serveAnomalies,

		"getIndexing":     aboutProperties((*propertyServer).serveIndexing),
		"listIndexedURLs": aboutProperties((*propertyServer).serveIndexedURLs),

		"listBrandTerms":  aboutProperties((*propertyServer).serveBrandTerms),
		"listPageGroups":  aboutProperties((*propertyServer).servePageGroups),
		"listAnnotations": aboutProperties((*propertyServer).serveAnnotations),

		"getOpenAPI": (*Server).serveOpenAPI,
	}
}
