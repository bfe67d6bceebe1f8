package proxy

import (
	"context"
	"log/slog"

	"sara/policy"
)

// noteAccess records that the upstream refuses this one property, or with an empty note that it answers. Either way it took
// the token, so the connection works.
func (s *Server) noteAccess(ctx context.Context, c *call, note string) {
	s.noteHealth(ctx, c.property, true, "")
	// The first note stands, whatever the others would say.
	if (c.property.AccessNote == "") == (note == "") {
		return
	}
	changed, err := s.config.Store.SetPropertyAccess(ctx, c.property.ID, note)
	s.logTransition(ctx, changed, err, "access to a property", slog.String("property", c.property.ID), slog.String("note", note))
}

// noteHealth records whether the connection works. Of many replicas that see it change, one makes the transition.
func (s *Server) noteHealth(ctx context.Context, p *policy.Property, healthy bool, note string) {
	if p.Connection.Healthy == healthy {
		return
	}
	changed, err := s.config.Store.SetConnectionHealth(ctx, p.Connection.ID, p.Connection.Revision, healthy, note)
	s.logTransition(ctx, changed, err, "health of a connection",
		slog.String("connection", p.Connection.ID), slog.Bool("healthy", healthy), slog.String("note", note))
}

// logTransition tells of a change once, and of a change that could not be recorded: the answer does not depend on it.
func (s *Server) logTransition(ctx context.Context, changed bool, err error, what string, attributes ...slog.Attr) {
	switch {
	case err != nil:
		attributes = append(attributes, slog.Any("error", err))
		s.config.Log.LogAttrs(ctx, slog.LevelError, "cannot record the "+what, attributes...)
	case changed:
		s.config.Log.LogAttrs(ctx, slog.LevelWarn, "changed: "+what, attributes...)
	}
}
