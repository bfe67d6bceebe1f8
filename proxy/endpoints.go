package proxy

import (
	"bytes"
	"strings"

	"sara/policy/panics"
)

// endpoints finds the route of a path without the router, which allocates memory for the parameters. It knows only the endpoints that need
// a key.
type endpoints struct {
	fixed      map[string]*route // by path
	ofProperty map[string]*route // by what follows the property in the path
}

const ofProperties = "/v1/properties/"

func newEndpoints(routes []route) endpoints {
	e := endpoints{map[string]*route{}, map[string]*route{}}
	for i := range routes {
		r := &routes[i]
		if r.Open {
			continue
		}
		if below, ok := strings.CutPrefix(r.Path, ofProperties+"{id}"); ok {
			e.ofProperty[below] = r
		} else {
			e.fixed[r.Path] = r
		}
	}
	return e
}

// find returns the route that the router would find; nil: that of no endpoint that needs a key.
func (e *endpoints) find(path []byte) *route {
	property, ok := bytes.CutPrefix(path, []byte(ofProperties))
	if !ok {
		return e.fixed[string(path)]
	}
	switch end := bytes.IndexByte(property, '/'); {
	case len(property) == 0:
		return nil
	case end < 0:
		return e.ofProperty[""]
	default:
		return e.ofProperty[string(property[end:])]
	}
}

// refuseAtOnce answers a request to an endpoint whose key the gate refuses without waiting, and reports whether it has. Such a request needs
// neither the router nor a context.
func (s *Server) refuseAtOnce(x *exchange, known endpoints) bool {
	if x.header.authorizations != 1 || s.telemetry.tracing.isOn() || !x.http.IsGet() && !x.http.IsHead() || x.isTooLong() {
		return false
	}
	if x.route = known.find(x.http.URI().PathOriginal()); x.route == nil {
		return false
	}
	s.telemetry.metrics.inFlight.Inc()
	defer s.telemetry.metrics.inFlight.Dec()
	err := s.refusalAtOnce(x)
	if err != nil {
		s.conclude(x, err)
	}
	return err != nil
}

func (s *Server) refusalAtOnce(x *exchange) (err error) {
	defer panics.Recover(&err)
	if denial := s.gate.RefuseAtOnce(x.started, x.request()); denial != nil {
		return denial
	}
	return nil
}
