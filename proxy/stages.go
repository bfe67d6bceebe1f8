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
func (s *Server) respond(ctx context.Context, c *call) (err error) {
	defer panics.Recover(&err)
	r, err := s.answer(ctx, c)
	if err == nil {
		r, err = s.reports.forms.finish(ctx, c, r)
	}
	if err == nil {
		s.send(c, r)
	}
	return err
}

// answer takes the stages in order: admission, parameters, property, handler.
func (s *Server) answer(ctx context.Context, c *call) (r reply, err error) {
	if c.memoized != nil {
		return s.answerMemoized(ctx, c)
	}
	if err := s.admit(ctx, c); err != nil {
		return reply{}, err
	}
	if c.isTooLong() {
		return reply{}, &apiError{code: openapi.CodeTooLarge,
			message: fmt.Sprintf("the URL is longer than %d bytes", maxURL)}
	}
	if c.route.Operation == "" {
		return c.route.serve(s, ctx, c)
	}
	if c.params, err = translate.Parse(c.route.Endpoint, c.http.URI().QueryString(), c.window); err != nil {
		return reply{}, err
	}
	if strings.Contains(c.route.Path, "{id}") {
		if err := s.findProperty(ctx, c); err != nil {
			return reply{}, err
		}
	}
	return c.route.serve(s, ctx, c)
}

// answerMemoized answers a memoized request: only the key and the budgets are checked again.
func (s *Server) answerMemoized(ctx context.Context, c *call) (r reply, err error) {
	m := c.memoized
	_, span := c.step(ctx, "admit")
	c.ownGrant = *m.grant
	c.grant, err = s.gate.Readmit(&c.ownGrant, c.started, c.request())
	span.End()
	if err != nil {
		return reply{}, asGateError(err)
	}
	c.window, c.windowEnds, c.params, c.property = m.window, m.windowEnds, m.params, m.property
	q := m.request
	q.call = c
	return s.reports.answerReport(ctx, &q)
}

// request is what the gate decides on.
func (c *call) request() policy.Request {
	return policy.Request{Authorization: c.header.credentials(), KeyHash: c.header.keyHash, Address: c.client, RequiredScopes: c.route.Scope}
}

func (c *call) isTooLong() bool { return len(c.http.RequestURI()) > maxURL }

// admit checks the key and charges the request budgets. An unknown path or method, or a URL that is too long, is answered 404, 405
// or 414 whatever the key; with a valid key it is charged to the key's minute, and has the account's rate limit headers. The
// OpenAPI document has them without a charge.
func (s *Server) admit(ctx context.Context, c *call) (err error) {
	if c.route.Open && (c.header.authorizations == 0 || c.route.Operation == "") {
		return nil
	}
	ctx, span := c.step(ctx, "admit")
	defer span.End()
	request := c.request()
	switch {
	case c.route.Open:
		c.grant = s.gate.Peek(ctx, request)
		return nil
	case c.route.Operation == "", c.isTooLong():
		c.grant, err = s.gate.AdmitUncovered(ctx, request)
		return err
	case c.header.authorizations > 1:
		return &apiError{code: policy.CodeInvalidKey, message: fmt.Sprintf(
			"the request has %d Authorization headers: send one, Authorization: Bearer <API_KEY>", c.header.authorizations)}
	}
	if c.grant, err = s.gate.Admit(ctx, request); err != nil {
		return asGateError(err)
	}
	s.setWindow(c)
	return nil
}

// setWindow sets the days that the grant lets the call ask for.
func (s *Server) setWindow(c *call) {
	anchor := s.calendar.Anchor(c.started)
	c.window, c.windowEnds = translate.NewWindow(anchor, c.grant.Plan.RetentionMonths), s.calendar.AnchorEnds(anchor)
}

// findProperty resolves the property that the path names.
func (s *Server) findProperty(ctx context.Context, c *call) error {
	raw, _ := c.http.UserValue("id").(string) // the router's own copy, so the gate may keep it
	reference, err := translate.UnescapePathSegment(raw)
	if err != nil {
		return err
	}
	c.property, err = s.gate.Property(ctx, c.grant, reference)
	return asGateError(err)
}
