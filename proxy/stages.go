package proxy

import (
	"context"
	"fmt"
	"strings"

	"sara/policy"
	"sara/policy/panics"
	"sara/proxy/openapi"
	"sara/translate"
)

// respond sends a success. If it returns an error, nothing has been sent yet, so that an error can be sent instead.
func (s *Server) respond(ctx context.Context, x *exchange) (err error) {
	defer panics.Recover(&err)
	defer x.endTurn()
	r, err := s.answer(ctx, x)
	if err == nil {
		r, err = s.forms.finish(ctx, x, r)
	}
	if err == nil {
		s.send(x, r)
	}
	return err
}

// answer takes the stages in order: admission, parameters, property, handler.
func (s *Server) answer(ctx context.Context, x *exchange) (r reply, err error) {
	if x.memoized != nil {
		return s.answerMemoized(ctx, x)
	}
	if err := s.admit(ctx, x); err != nil {
		return reply{}, err
	}
	if x.isTooLong() {
		return reply{}, &apiError{code: openapi.CodeTooLarge,
			message: fmt.Sprintf("the URL is longer than %d bytes", maxURL)}
	}
	if x.route.Operation == "" {
		return x.route.serve(s, ctx, x)
	}
	if x.params, err = translate.Parse(x.route.Endpoint, x.http.URI().QueryString(), x.window); err != nil {
		return reply{}, err
	}
	if strings.Contains(x.route.Path, "{id}") {
		if err := s.findProperty(ctx, x); err != nil {
			return reply{}, err
		}
	}
	return x.route.serve(s, ctx, x)
}

// answerMemoized answers a memoized request: only the key and the budgets are checked again.
func (s *Server) answerMemoized(ctx context.Context, x *exchange) (r reply, err error) {
	m := x.memoized
	_, span := x.step(ctx, "admit")
	x.ownGrant = *m.grant
	x.grant, err = s.gate.Readmit(&x.ownGrant, x.started, x.request())
	span.End()
	if err != nil {
		return reply{}, asGateError(err)
	}
	x.window, x.windowEnds, x.params, x.property = m.window, m.windowEnds, m.params, m.property
	q := m.request
	q.call = &x.call
	return s.reports.answerReport(ctx, &q)
}

// request is what the gate decides on.
func (x *exchange) request() policy.Request {
	return policy.Request{Authorization: x.header.credentials(), KeyHash: x.header.keyHash, Address: x.client, RequiredScopes: x.route.Scope}
}

func (x *exchange) isTooLong() bool { return len(x.http.RequestURI()) > maxURL }

// admit checks the key and charges the request budgets. An unknown path or method, or a URL that is too long, is answered 404, 405
// or 414 whatever the key; with a valid key it is charged to the key's minute, and has the account's rate limit headers. The
// OpenAPI document has them without a charge.
func (s *Server) admit(ctx context.Context, x *exchange) (err error) {
	if x.route.Open && (x.header.authorizations == 0 || x.route.Operation == "") {
		return nil
	}
	ctx, span := x.step(ctx, "admit")
	defer span.End()
	request := x.request()
	switch {
	case x.route.Open:
		x.grant = s.gate.Peek(ctx, request)
		return nil
	case x.route.Operation == "", x.isTooLong():
		x.grant, err = s.gate.AdmitUncovered(ctx, request)
		return err
	case x.header.authorizations > 1:
		return &apiError{code: policy.CodeInvalidKey, message: fmt.Sprintf(
			"the request has %d Authorization headers: send one, Authorization: Bearer <API_KEY>", x.header.authorizations)}
	}
	if x.grant, err = s.gate.Admit(ctx, request); err != nil {
		return asGateError(err)
	}
	s.setWindow(&x.call)
	return nil
}

// setWindow sets the days that the grant lets the call ask for.
func (s *Server) setWindow(c *call) {
	anchor := s.calendar.Anchor(c.started)
	c.window, c.windowEnds = translate.NewWindow(anchor, c.grant.Plan.RetentionMonths), s.calendar.AnchorEnds(anchor)
}

// findProperty resolves the property that the path names.
func (s *Server) findProperty(ctx context.Context, x *exchange) error {
	raw, _ := x.http.UserValue("id").(string) // the router's own copy, so the gate may keep it
	reference, err := translate.UnescapePathSegment(raw)
	if err != nil {
		return err
	}
	x.property, err = s.gate.Property(ctx, x.grant, reference)
	return asGateError(err)
}
