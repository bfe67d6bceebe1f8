package proxy

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"sara/policy"
	"sara/proxy/spans"
	"sara/translate"
)

// A call asks for data: whose, which, and in whose name. It comes by HTTP (see exchange), or is made for a part of another one's answer. It
// belongs to one goroutine.
type call struct {
	id      string // of the request; valid as long as the call
	started time.Time
	span    trace.Span // nil: tracing is off
	noCache bool       // figures should be fresh
	part    bool       // a summary for another answer, such as of one property of a portfolio

	// Set by the stages: nil until then, and on routes that have no use for them.
	grant      *policy.Grant
	window     translate.Window
	windowEnds time.Time // when the anchor moves on
	params     *translate.Params
	property   *policy.Property

	held    bool      // something that may outlive the request refers to the call or its context
	turn    func()    // ends the turn among large work, in which the answer also takes its form; nil: there is none
	scratch [256]byte // used by one step at a time
}

// step starts a child span for a stage that may take time. Without tracing it does not read the context.
func (c *call) step(ctx context.Context, name string) (context.Context, spans.Span) {
	if c.span == nil {
		return ctx, spans.Span{}
	}
	return spans.Start(ctx, name)
}

// endTurn ends the turn among large work, if there is one.
func (c *call) endTurn() {
	if c.turn != nil {
		c.turn()
		c.turn = nil
	}
}
