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
func (s *Server) refuseAtOnce(c *call, known endpoints) bool {
	if c.header.authorizations != 1 || s.telemetry.tracing.isOn() || !c.http.IsGet() && !c.http.IsHead() || c.isTooLong() {
		return false
	}
	if c.route = known.find(c.http.URI().PathOriginal()); c.route == nil {
		return false
	}
	s.telemetry.metrics.inFlight.Inc()
	defer s.telemetry.metrics.inFlight.Dec()
	err := s.refusalAtOnce(c)
	if err != nil {
		s.conclude(c, err)
	}
	return err != nil
}

func (s *Server) refusalAtOnce(c *call) (err error) {
	defer panics.Recover(&err)
	if denial := s.gate.RefuseAtOnce(c.started, c.request()); denial != nil {
		return denial
	}
	return nil
}
